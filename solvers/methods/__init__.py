"""The union of all methods. Methods in `data` see the data and are reviewed for it; the others use an oracle.

A request names a `Method`, which resolves to a `Run`. To add a method, add one file and one line in the union.
"""

from typing import TYPE_CHECKING, Union, get_args, get_type_hints

from solvers.methods.allocated.noisy_mirror_descent import NoisyMirrorDescent as NoisyMirrorDescent
from solvers.methods.data.ada_ssp import AdaSsp as AdaSsp
from solvers.methods.data.bootstrap_reduction import BootstrapReduction as BootstrapReduction
from solvers.methods.data.epoch_growth import EpochGrowth as EpochGrowth
from solvers.methods.data.growth_reduction import GrowthReduction as GrowthReduction
from solvers.methods.data.inverse_sensitivity import InverseSensitivity as InverseSensitivity
from solvers.methods.data.localization import Localization as Localization
from solvers.methods.data.objective_perturbation import ObjectivePerturbation as ObjectivePerturbation
from solvers.methods.data.output_perturbation import OutputPerturbation as OutputPerturbation
from solvers.methods.data.phased_sgd import PhasedSgd as PhasedSgd
from solvers.methods.oracle.dp_acc_md import DpAccMd as DpAccMd
from solvers.methods.oracle.dp_gd import DpGd as DpGd
from solvers.methods.oracle.dp_svrg import DpSvrg as DpSvrg
from solvers.methods.oracle.dp_svrg_pp import DpSvrgPp as DpSvrgPp
from solvers.methods.oracle.noisy_sgd import NoisySgd as NoisySgd
from solvers.methods.run import (
    AllocatedRun,
    ChoosingRun,
    CountingRun,
    DataRun,
    FullBatchRun,
    SampledRun,
    StandardisedRun,
    WeightedRun,
)
from solvers.methods.standardised.adaptive_gd import AdaptiveGd as AdaptiveGd

Method = (
    AdaSsp
    | AdaptiveGd
    | BootstrapReduction
    | DpAccMd
    | DpGd
    | DpSvrg
    | DpSvrgPp
    | EpochGrowth
    | GrowthReduction
    | InverseSensitivity
    | Localization
    | NoisyMirrorDescent
    | NoisySgd
    | ObjectivePerturbation
    | OutputPerturbation
    | PhasedSgd
)


if TYPE_CHECKING:
    Run = FullBatchRun | SampledRun | AllocatedRun | StandardisedRun | CountingRun | WeightedRun | ChoosingRun | DataRun
else:  # the return types of `resolve`, so that no list has to be kept in step
    Run = Union[tuple(get_type_hints(method.resolve)["return"] for method in get_args(Method))]  # noqa: UP007
