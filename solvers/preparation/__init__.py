"""How rows become the vectors that a method meets: a job asks for one of two ways, and a run has one of three."""

from solvers.preparation.declared import ByMethod, Declared
from solvers.preparation.private import Private

Asked = Declared | Private
Preparation = Declared | ByMethod | Private

__all__ = ["Asked", "ByMethod", "Declared", "Preparation", "Private"]
