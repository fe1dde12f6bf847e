"""Sfumato: private answers about people, under a budget that is accounted exactly."""

__version__ = "0.1.0"

__all__ = ["__version__"]
