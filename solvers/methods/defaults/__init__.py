"""Default numbers of steps and step sizes, from public facts alone; they never affect noise or see data."""

from solvers.methods.defaults.descent import (
    NOISE_COST,
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
    "NOISE_COST",
    "accelerated_step",
    "accelerated_steps",
    "answers_std",
    "at_stake",
    "budget_mu",
    "descent_time",
    "distance",
    "mirror_time",
]
