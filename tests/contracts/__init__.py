"""Test suites that every adapter inherits."""
