"""Sizes and step sizes from public facts alone, and what is proven of them: never noise, never a look at the data."""

from solvers.methods.defaults.descent import (
    accelerated_step,
    accelerated_steps,
    answers_std,
    at_stake,
    budget_mu,
    descent_time,
    distance,
    mirror_time,
)

__all__ = [
    "accelerated_step",
    "accelerated_steps",
    "answers_std",
    "at_stake",
    "budget_mu",
    "descent_time",
    "distance",
    "mirror_time",
]
