"""The HTTP layer that every request passes through: limits, bodies, errors and problem details."""
