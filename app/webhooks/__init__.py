"""Webhooks: messages to an analyst's address when a job has ended, once the public grid of times allows it."""
