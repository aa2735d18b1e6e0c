"""Health and metrics: what an operator and a monitor ask."""
