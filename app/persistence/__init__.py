"""The database (SQLite or PostgreSQL): tables, transactions and migrations; atomic writes of small files."""
