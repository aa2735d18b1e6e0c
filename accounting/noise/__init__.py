"""The only source of privacy randomness, and the lattices that its answers live on."""

from accounting.noise.source import Noise, Tails

__all__ = ["Noise", "Tails"]
