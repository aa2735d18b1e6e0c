"""The methods whose privacy rests on their own steps or that must see the data, one file each; each is reviewed like a
mechanism: precondition, pseudo-code, postcondition, proof.
"""

from solvers.perturbation.ada_ssp import AdaSsp
from solvers.perturbation.objective_perturbation import ObjectivePerturbation
from solvers.perturbation.output_perturbation import OutputPerturbation

Perturbation = AdaSsp | ObjectivePerturbation | OutputPerturbation

__all__ = ["AdaSsp", "ObjectivePerturbation", "OutputPerturbation", "Perturbation"]
