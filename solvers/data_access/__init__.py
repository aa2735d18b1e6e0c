"""The narrow door: what touches the data. Everything that leaves goes through a mechanism and is counted."""
