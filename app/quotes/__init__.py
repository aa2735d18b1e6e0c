"""The price of a job: a function of public facts."""
