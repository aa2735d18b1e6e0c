"""The methods whose privacy rests on their own steps or that must see the data, one file each; each is reviewed like a
mechanism: precondition, pseudo-code, postcondition, proof. `LastIterateDescent` is how dp_gd runs with release "last".
"""

from solvers.perturbation.last_iterate import LastIterateDescent
from solvers.perturbation.output_perturbation import OutputPerturbation

Perturbation = OutputPerturbation

__all__ = ["LastIterateDescent", "OutputPerturbation", "Perturbation"]
