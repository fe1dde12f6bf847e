"""Attacks on a running system, each of which once did harm."""
