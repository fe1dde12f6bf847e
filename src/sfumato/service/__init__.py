"""The HTTP service: who may ask, over which routes, and how errors are told."""
