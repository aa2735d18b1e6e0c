"""Client of the service: datasets, prices, jobs, models and receipts.

with purse.Client("http://127.0.0.1:8000", token="...") as service:
    job = service.jobs.submit(dataset="people", target="income", privacy={"epsilon": 0.5, "delta": 1e-7})
    model = job.result()
    job.receipt().verify()

For data on your own machine, there are estimators of scikit-learn such as `purse.PrivateLogisticRegression`.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from purse.client import AsyncClient, AsyncJobHandle, AsyncSessionHandle, Client, JobHandle, SessionHandle
    from purse.errors import ClientError, JobNotReleased, ProblemError, Unreachable
    from purse.estimators import BudgetAccountant as BudgetAccountant
    from purse.estimators import LearnedFromData as LearnedFromData
    from purse.estimators import PrivateLinearRegression as PrivateLinearRegression
    from purse.estimators import PrivateLinearSVC as PrivateLinearSVC
    from purse.estimators import PrivateLogisticRegression as PrivateLogisticRegression
    from purse.estimators import PrivateQuantileRegressor as PrivateQuantileRegressor
    from purse.estimators import check_pipeline as check_pipeline
    from purse.extras import NotInstalled
    from purse.formulas import formula
    from purse.model import Model
    from purse.prediction import predict
    from purse.receipts import NotVerified, Receipt, load
    from purse.sessions import session

__all__ = [
    "AsyncClient",
    "AsyncJobHandle",
    "AsyncSessionHandle",
    "Client",
    "ClientError",
    "JobHandle",
    "JobNotReleased",
    "Model",
    "NotInstalled",
    "NotVerified",
    "ProblemError",
    "Receipt",
    "SessionHandle",
    "Unreachable",
    "formula",
    "load",
    "predict",
    "session",
]

_ESTIMATORS = (  # not in `__all__`, because a star import must not need an extra
    "BudgetAccountant",
    "LearnedFromData",
    "PrivateLinearRegression",
    "PrivateLinearSVC",
    "PrivateLogisticRegression",
    "PrivateQuantileRegressor",
    "check_pipeline",
)


def __getattr__(name: str) -> object:
    """Return a public name; its module is loaded at the first use, because the service needs only the wire."""
    home: object
    match name:
        case "AsyncClient" | "AsyncJobHandle" | "AsyncSessionHandle" | "Client" | "JobHandle" | "SessionHandle":
            from purse import client as home
        case "ClientError" | "JobNotReleased" | "ProblemError" | "Unreachable":
            from purse import errors as home
        case "NotVerified" | "Receipt" | "load":
            from purse import receipts as home
        case "NotInstalled":
            from purse import extras as home
        case "formula":
            from purse import formulas as home
        case "Model":
            from purse import model as home
        case "predict":
            from purse import prediction as home
        case "session":
            from purse import sessions as home
        case _ if name in _ESTIMATORS:
            from purse.extras import needing

            with needing(f"purse.{name}", "sklearn,solvers"):
                from purse import estimators as home
        case _:
            raise AttributeError(f"module 'purse' has no attribute {name!r}")
    value: object = getattr(home, name)
    return value
