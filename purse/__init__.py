"""A service's datasets, prices, jobs, models and receipts from Python.

with purse.Client("http://127.0.0.1:8000", token="...") as service:
    job = service.jobs.submit(dataset="ds_...", target="income", privacy={"epsilon": 0.5, "delta": 1e-7})
    model = job.result()
    job.receipt().verify()

For data in your own hands: `purse.PrivateLogisticRegression` and its like, estimators of scikit-learn.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from purse.client import AsyncClient, AsyncJobHandle, Client, JobHandle
    from purse.errors import ClientError, JobNotReleased, ProblemError, Unreachable
    from purse.estimators import BudgetAccountant as BudgetAccountant
    from purse.estimators import LearnedFromData as LearnedFromData
    from purse.estimators import PrivateLinearRegression as PrivateLinearRegression
    from purse.estimators import PrivateLinearSVC as PrivateLinearSVC
    from purse.estimators import PrivateLogisticRegression as PrivateLogisticRegression
    from purse.estimators import PrivateQuantileRegressor as PrivateQuantileRegressor
    from purse.estimators import check_pipeline as check_pipeline
    from purse.extras import NotInstalled
    from purse.model import Model
    from purse.prediction import predict
    from purse.receipts import NotVerified, Receipt, load

__all__ = [
    "AsyncClient",
    "AsyncJobHandle",
    "Client",
    "ClientError",
    "JobHandle",
    "JobNotReleased",
    "Model",
    "NotInstalled",
    "NotVerified",
    "ProblemError",
    "Receipt",
    "Unreachable",
    "load",
    "predict",
]

_ESTIMATORS = (  # not in `__all__`: a star import asks for no extra
    "BudgetAccountant",
    "LearnedFromData",
    "PrivateLinearRegression",
    "PrivateLinearSVC",
    "PrivateLogisticRegression",
    "PrivateQuantileRegressor",
    "check_pipeline",
)


def __getattr__(name: str) -> object:
    """Each is loaded when first asked for: the service needs the wire alone."""
    home: object
    match name:
        case "AsyncClient" | "AsyncJobHandle" | "Client" | "JobHandle":
            from purse import client as home
        case "ClientError" | "JobNotReleased" | "ProblemError" | "Unreachable":
            from purse import errors as home
        case "NotVerified" | "Receipt" | "load":
            from purse import receipts as home
        case "NotInstalled":
            from purse import extras as home
        case "Model":
            from purse import model as home
        case "predict":
            from purse import prediction as home
        case _ if name in _ESTIMATORS:
            from purse.extras import needing

            with needing(f"purse.{name}", "sklearn,solvers"):
                from purse import estimators as home
        case _:
            raise AttributeError(f"module 'purse' has no attribute {name!r}")
    found: object = getattr(home, name)
    return found
