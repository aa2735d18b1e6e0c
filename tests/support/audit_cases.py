"""Epsilon and number of runs at which each audit case has power, as make power measures."""

from solvers.audit import CASES

# The epsilon promised and the runs of either dataset, at most, times the case's effort. At epsilon 6 half the noise
# shows by the fewest runs, since mu is 1.3 and the errors on both sides are judged together: so many that the bound is
# above the promise by three standard deviations of that bound or more, as `make power` measures by drawing the scores
# again. Where a promise is composed of parts, another epsilon shows it best.
TRIED: dict[str, tuple[float, int]] = dict.fromkeys(CASES, (6.0, 360)) | {
    "ada_ssp": (6.0, 340),
    "ada_ssp_boosted": (6.0, 100),
    "adaptive_gd": (6.0, 480),
    "adaptive_gd_absolute": (6.0, 480),
    "adaptive_gd_hinge": (6.0, 480),
    "adaptive_gd_numbers": (6.0, 440),
    "adaptive_gd_softmax": (6.0, 440),
    "adaptive_gd_sparse": (6.0, 480),
    "adaptive_gd_wide": (6.0, 480),
    "bootstrap_reduction": (0.8, 400),
    "dp_acc_md": (6.0, 300),
    "dp_gd": (6.0, 300),
    "dp_gd_limited": (6.0, 300),
    "dp_gd_persons": (6.0, 300),
    "dp_gd_random": (8.0, 500),
    "dp_svrg_centred": (6.0, 440),
    "dp_svrg_pp": (5.0, 900),
    "dp_svrg_walk": (6.0, 480),
    "inverse_sensitivity": (1.0, 1),  # its law is computed
    "localization": (6.0, 520),
    "noisy_mirror_descent": (7.0, 560),
    "noisy_sgd": (6.0, 680),
    "objective_perturbation": (6.0, 600),
    "output_perturbation": (6.0, 350),
    "output_perturbation_laplace": (2.0, 880),
    "profile": (6.0, 550),
    "profile_persons": (6.0, 580),
    "regression_table": (6.0, 700),
}


# Whose lines and branches are those of the cases named; or which are attacked harder in a file named.
SHARED = {
    "adaptive_gd": ("adaptive_gd_profile", "adaptive_gd_wide"),
    "dp_gd_last": ("test_last_iterate",),
    "dp_svrg": ("dp_svrg_walk", "dp_svrg_pp"),
    "dp_svrg_walk_centred": ("dp_svrg_walk", "dp_svrg_centred", "test_audit_walk"),
    "epoch_growth": ("test_audit_growth",),
    "localization": ("test_audit_growth",),
    "noisy_sgd_persons": ("noisy_sgd", "dp_gd_persons"),
    "noisy_sgd_standardised": ("noisy_sgd", "dp_gd_standardised"),
    "output_perturbation_persons": ("output_perturbation", "dp_gd_persons"),
    "phased_sgd": ("test_audit_growth",),
    "profile": ("profile_persons",),
    "regression_table_logistic": ("test_audit_regression_table",),
    "regression_table_persons": ("test_audit_regression_table",),
    "regression_table_poisson": ("test_audit_regression_table",),
    "counts_persons": ("counts", "profile_persons"),
    "covariance_persons": ("covariance", "profile_persons"),
    "evaluation_numbers": ("evaluation",),
    "evaluation_persons": ("evaluation", "profile_persons"),
    "means": ("profile_persons",),
    "means_persons": ("profile_persons",),
    "table1_persons": ("table1", "profile_persons"),
    "quantiles": ("profile_persons",),
    "quantiles_persons": ("profile_persons",),
}


# One case of each kind of bound or curve that is another under zero_out; `make audit` tries all.
NULL = (
    "adaptive_gd_absolute",
    "adaptive_gd_numbers",
    "dp_gd",
    "dp_gd_last",
    "dp_gd_persons",
    "dp_gd_standardised",
    "localization",
    "noisy_mirror_descent",
    "noisy_sgd",
    "objective_perturbation",
    "profile",
)
