"""What every request passes: limits, bodies, errors, problem details."""
