"""Ledgers in the database, the published heads of their chains, and the key that signs receipts."""
