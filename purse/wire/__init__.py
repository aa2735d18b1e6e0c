"""Every request and response. No I/O."""
