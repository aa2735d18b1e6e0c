"""The methods whose privacy rests on their own steps or that must see the data, one file each; each is reviewed like a
mechanism: precondition, pseudo-code, postcondition, proof.
"""

from solvers.perturbation.inverse_sensitivity import InverseSensitivity
from solvers.perturbation.output_perturbation import OutputPerturbation

Perturbation = OutputPerturbation | InverseSensitivity

__all__ = ["InverseSensitivity", "OutputPerturbation", "Perturbation"]
