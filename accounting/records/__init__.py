"""Stored records: documents, the codec, the hash chain, the ledger, receipts and their signatures."""
