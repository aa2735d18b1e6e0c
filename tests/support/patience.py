"""How long a test waits for what it has set going."""

PATIENCE = 240.0  # seconds: a guard against hanging and no expectation, since a load of 20 slows a machine tenfold
