"""Datasets: uploaded once, declared in public, kept under a budget."""
