"""What people see in a browser: made from the API's own answers to the visitor's own token, and nothing else."""
