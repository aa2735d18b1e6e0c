"""Every method by its name: those that ask the oracle, and those that are reviewed because they see the data."""

from solvers.methods import Method as OracleMethod
from solvers.perturbation import Perturbation

Method = OracleMethod | Perturbation

__all__ = ["Method", "OracleMethod", "Perturbation"]
