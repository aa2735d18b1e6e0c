"""Files of records: read in a stream, encoded record by record, kept as a memory-mapped matrix."""
