"""Releases: tables of counts and statistics that are published once, from data too large for a loop over rows."""
