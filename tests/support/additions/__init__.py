"""Additions to the product, one of each kind, which `tests/service/test_additions.py` makes to a copy."""
