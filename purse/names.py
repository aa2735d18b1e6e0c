"""Names that a request may use. They repeat the unions of the solvers, which a client need not load."""

from typing import Final

METHODS: Final = (
    "ada_ssp",
    "adaptive_gd",
    "auto",
    "bootstrap_reduction",
    "dp_acc_md",
    "dp_gd",
    "dp_svrg",
    "dp_svrg_pp",
    "epoch_growth",
    "growth_reduction",
    "inverse_sensitivity",
    "localization",
    "noisy_mirror_descent",
    "noisy_sgd",
    "objective_perturbation",
    "output_perturbation",
    "phased_sgd",
)
LOSSES: Final = (
    "absolute",
    "hinge",
    "huber",
    "huber_hinge",
    "logistic",
    "power",
    "quantile",
    "sigmoid",
    "softmax",
    "squared",
)
REGULARIZERS: Final = ("elastic_net", "l1", "l2", "none")
DOMAINS: Final = ("free", "l1_ball", "l2_ball", "linf_ball", "simplex")
