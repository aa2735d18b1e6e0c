"""Methods that see private gradients and never data, one file each."""
