"""The methods whose privacy rests on their own steps or that must see the data, one file each; each is reviewed like a
mechanism: precondition, pseudo-code, postcondition, proof.
"""

from solvers.methods.data.ada_ssp import AdaSsp
from solvers.methods.data.bootstrap_reduction import BootstrapReduction
from solvers.methods.data.epoch_growth import EpochGrowth
from solvers.methods.data.growth_reduction import GrowthReduction
from solvers.methods.data.inverse_sensitivity import InverseSensitivity
from solvers.methods.data.localization import Localization
from solvers.methods.data.objective_perturbation import ObjectivePerturbation
from solvers.methods.data.output_perturbation import OutputPerturbation
from solvers.methods.data.phased_sgd import PhasedSgd

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
