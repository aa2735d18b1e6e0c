"""The methods that see answers over the slots of a random allocation, and never data, one file each."""
