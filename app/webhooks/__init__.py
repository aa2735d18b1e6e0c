"""Webhooks: whoever asked for it is told that a job is over, once the public grid of times allows it."""
