"""Costs and accuracy, measured: `python -m benchmarks [costs] [accuracy]`."""
