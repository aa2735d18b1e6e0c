"""Every method by its name: those that ask the oracle, and those that are reviewed because they see the data."""

from solvers.methods.data import (
    AdaSsp,
    BootstrapReduction,
    EpochGrowth,
    GrowthReduction,
    InverseSensitivity,
    Localization,
    ObjectivePerturbation,
    OutputPerturbation,
    Perturbation,
    PhasedSgd,
)
from solvers.methods.data.last_iterate import LastIterateDescent
from solvers.methods.oracle import DpAccMd, DpGd, DpSvrg, DpSvrgPp, NoisyMirrorDescent, NoisySgd
from solvers.methods.oracle import Method as OracleMethod

Method = OracleMethod | Perturbation


def reviewed(method: Method) -> Perturbation | LastIterateDescent | None:
    """The run that sees data, of a resolved method that has one; None for a method that asks the oracle."""
    if isinstance(method, Perturbation):
        return method
    if isinstance(method, DpGd) and method.release == "last" and method.steps and method.step:
        return LastIterateDescent(method.steps, method.step)
    return None


__all__ = [
    "AdaSsp",
    "BootstrapReduction",
    "DpAccMd",
    "DpGd",
    "DpSvrg",
    "DpSvrgPp",
    "EpochGrowth",
    "GrowthReduction",
    "InverseSensitivity",
    "Localization",
    "Method",
    "NoisyMirrorDescent",
    "NoisySgd",
    "ObjectivePerturbation",
    "OracleMethod",
    "OutputPerturbation",
    "Perturbation",
    "PhasedSgd",
    "reviewed",
]
