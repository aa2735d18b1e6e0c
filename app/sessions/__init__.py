"""Sessions: budget that analysts reserve for answers which their own programs compute outside of this service."""
