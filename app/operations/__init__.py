"""Health, metrics, logs, traces and backups of a running service."""
