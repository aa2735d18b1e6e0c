"""Requests and responses of the API. No I/O."""
