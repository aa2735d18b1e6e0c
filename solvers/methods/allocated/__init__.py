"""Methods that see private gradients over secret slots and never data, one file each."""
