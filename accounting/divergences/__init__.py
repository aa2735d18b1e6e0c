"""How far two laws are apart: Gaussian pairs, randomized response, random allocation. Knows no mechanism."""
