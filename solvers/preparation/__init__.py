"""Preparations, which turn rows into the vectors that a method uses.

A job requests one of three preparations, and a run has one of four.
"""

from solvers.preparation.declared import ByMethod, Declared
from solvers.preparation.private import Private
from solvers.preparation.profile import ByProfile

AskedPreparation = Declared | Private | ByProfile
Preparation = Declared | ByMethod | Private | ByProfile

__all__ = ["AskedPreparation", "ByMethod", "ByProfile", "Declared", "Preparation", "Private"]
