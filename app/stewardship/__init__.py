"""Stewards' changes to a registered dataset: amendment, freezing, deletion of values, charges from outside."""
