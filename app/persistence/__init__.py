"""The database, SQLite or PostgreSQL: tables, transactions, migrations; and small files."""
