"""Quotes: the price of a job, computed from public facts."""
