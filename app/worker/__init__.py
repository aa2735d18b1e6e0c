"""Attempts of jobs: the processes that run them, the code that runs there, and its output."""
