"""Expressions of one row: a closed list of total functions, in WHERE, in keys and in filters of measures."""
