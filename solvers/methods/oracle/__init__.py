"""The methods that see answers and never data, one file each."""
