"""How rows become the vectors that a method meets: a job asks for one of three ways, and a run has one of four."""

from solvers.preparation.declared import ByMethod, Declared
from solvers.preparation.private import Private
from solvers.preparation.profile import ByProfile

AskedPreparation = Declared | Private | ByProfile
Preparation = Declared | ByMethod | Private | ByProfile

__all__ = ["AskedPreparation", "ByMethod", "ByProfile", "Declared", "Preparation", "Private"]
