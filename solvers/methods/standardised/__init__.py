"""Methods that request moments of declared columns, and gradients in centered and scaled coordinates."""
