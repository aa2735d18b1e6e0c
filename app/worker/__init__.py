"""Attempts of jobs, on processes of their own: who starts them, what they run, what comes back."""
