"""Gradients rounded to a lattice of G 2^-k; docs/proofs/inverse_sensitivity.md."""

import math

from solvers.bounds import UNIT
from solvers.problem import Problem


def lattice_error(problem: Problem) -> float:
    """Return the largest excess of a rounded gradient's norm over G, as a share of G."""
    return 8 * (problem.d + 8) * UNIT + math.sqrt(problem.d) * 2.0 ** -lattice_bits(problem)


def lattice_bits(problem: Problem) -> int:
    """Return k, for which a block's sum stays below 2^53, where floats are exact integers, and the total below 2^62."""
    return min(36, 60 - problem.slots.bit_length())
