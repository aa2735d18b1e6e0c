"""All code that touches the data. Every value that leaves goes through a mechanism and is counted."""
