"""Privacy arithmetic outside of the server's own process: prices and recomputed receipts, from public facts alone."""
