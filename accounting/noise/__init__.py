"""The only source of privacy randomness, and the lattices of its answers."""

from accounting.noise.source import Noise, Tails

__all__ = ["Noise", "Tails"]
