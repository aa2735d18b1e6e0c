"""The methods whose privacy rests on their own steps or that must see the data, one file each; each is reviewed like a
mechanism: precondition, pseudo-code, postcondition, proof. `LastIterateDescent` is how dp_gd runs with release "last".
"""

from solvers.perturbation.ada_ssp import AdaSsp
from solvers.perturbation.last_iterate import LastIterateDescent
from solvers.perturbation.objective_perturbation import ObjectivePerturbation
from solvers.perturbation.output_perturbation import OutputPerturbation

Perturbation = AdaSsp | ObjectivePerturbation | OutputPerturbation

__all__ = ["AdaSsp", "LastIterateDescent", "ObjectivePerturbation", "OutputPerturbation", "Perturbation"]
