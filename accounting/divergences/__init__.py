"""Divergences of pairs of laws: Gaussian, randomized response, random allocation. Nothing here imports a mechanism."""
