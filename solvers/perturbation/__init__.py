"""The methods whose privacy rests on their own steps or that must see the data, one file each; each is reviewed like a
mechanism: precondition, pseudo-code, postcondition, proof.
"""

from solvers.perturbation.ada_ssp import AdaSsp
from solvers.perturbation.bootstrap_reduction import BootstrapReduction
from solvers.perturbation.epoch_growth import EpochGrowth
from solvers.perturbation.growth_reduction import GrowthReduction
from solvers.perturbation.inverse_sensitivity import InverseSensitivity
from solvers.perturbation.localization import Localization
from solvers.perturbation.objective_perturbation import ObjectivePerturbation
from solvers.perturbation.output_perturbation import OutputPerturbation
from solvers.perturbation.phased_sgd import PhasedSgd

Perturbation = (
    AdaSsp
    | BootstrapReduction
    | EpochGrowth
    | GrowthReduction
    | InverseSensitivity
    | Localization
    | ObjectivePerturbation
    | OutputPerturbation
    | PhasedSgd
)

__all__ = [
    "AdaSsp",
    "BootstrapReduction",
    "EpochGrowth",
    "GrowthReduction",
    "InverseSensitivity",
    "Localization",
    "ObjectivePerturbation",
    "OutputPerturbation",
    "Perturbation",
    "PhasedSgd",
]
