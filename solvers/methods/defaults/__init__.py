"""Default numbers of steps and step sizes, from public facts alone; they never affect noise or see data."""
