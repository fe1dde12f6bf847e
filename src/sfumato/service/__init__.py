"""The HTTP service: a session behind authentication, limits and routes."""
