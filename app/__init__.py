"""The service: routes and pages, ledgers and jobs, workers and the command `purse`."""
