"""Methods that ask about rows of a declared layout: moments, and gradients in centred and scaled coordinates."""
