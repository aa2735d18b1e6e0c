"""Ledgers in the database: their chains, their heads kept outside, and the key that signs receipts."""
