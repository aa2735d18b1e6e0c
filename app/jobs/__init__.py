"""Jobs: their submission, queue and attempts, and the publication of their results."""
