"""Benchmarks of costs and accuracy: `python -m benchmarks [PART ...]`."""
