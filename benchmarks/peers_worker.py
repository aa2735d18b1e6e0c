"""A worker in .venv-peers that imports none of our code: `python peers_worker.py DATA.npz < jobs > answers`.

A job names a peer and its settings; an answer holds the coefficients of one run and its CPU seconds, from the arrays in
memory to the coefficients, calibration included.
"""

import json
import sys
import time
import warnings
from typing import Any

import numpy as np


def diffprivlib_logistic(X: Any, y: Any, job: dict[str, Any]) -> Any:
    """Chaudhuri, Monteleoni and Sarwate 2011 on rows of norm at most 1, with no intercept beside the constant column.

    Rows are divided by their bound R, for its noise is right for R = 1; so its penalty ||v||^2 / (2 C n) is
    (l2 / 2) ||w||^2 for w = v / R and C = R^2 / (n l2).
    """
    from diffprivlib.models import LogisticRegression

    model = LogisticRegression(epsilon=job["epsilon"], data_norm=1.0, C=job["C"], fit_intercept=False)
    return model.fit(X / job["row_norm"], y).coef_.ravel() / job["row_norm"]


def diffprivlib_linear(X: Any, y: Any, job: dict[str, Any]) -> Any:
    """The functional mechanism of Zhang et al. 2012, all bounds [-1, 1]."""
    from diffprivlib.models import LinearRegression

    model = LinearRegression(epsilon=job["epsilon"], bounds_X=(-1, 1), bounds_y=(-1, 1), fit_intercept=False)
    return model.fit(X, y).coef_.ravel()


def opacus(X: Any, y: Any, job: dict[str, Any]) -> Any:
    """DP-SGD on Poisson batches, from zero; the last point. Loss: "logistic", y in {-1, +1}, or "squared", halved.

    With `multiplier` the noise is that; without, Opacus calibrates it to (epsilon, delta), add or remove.
    """
    import torch
    from opacus import PrivacyEngine
    from torch.utils.data import DataLoader, Dataset

    class Rows(Dataset):  # type: ignore[misc]
        """Yield whole batches, because a DataLoader that fetches single rows takes several times as long."""

        def __init__(self) -> None:
            self.X = torch.tensor(X, dtype=torch.float32)
            self.y = torch.tensor(y, dtype=torch.float32)

        def __len__(self) -> int:
            return len(self.y)

        def __getitem__(self, i: int) -> Any:
            return self.X[i], self.y[i]

        def __getitems__(self, rows: list[int]) -> Any:
            return self.X[rows], self.y[rows]

    torch.set_num_threads(1)
    model = torch.nn.Linear(X.shape[1], 1, bias=False)
    torch.nn.init.zeros_(model.weight)
    optimizer: Any = torch.optim.SGD(model.parameters(), lr=job["rate"], weight_decay=job["l2"])
    loader: Any = DataLoader(Rows(), batch_size=job["batch"], collate_fn=lambda batch: batch)
    engine, clip = PrivacyEngine(), job["clip"]
    both = {"module": model, "optimizer": optimizer, "data_loader": loader, "max_grad_norm": clip}
    if "multiplier" in job:
        model, optimizer, loader = engine.make_private(noise_multiplier=job["multiplier"], **both)
    else:
        model, optimizer, loader = engine.make_private_with_epsilon(
            target_epsilon=job["epsilon"], target_delta=job["delta"], epochs=job["epochs"], **both
        )
    for _ in range(job["epochs"]):
        for rows, targets in loader:
            optimizer.zero_grad()
            margin = model(rows).squeeze(-1)
            if job["loss"] == "logistic":
                loss = torch.nn.functional.softplus(-targets * margin).mean()
            else:
                loss = ((margin - targets) ** 2).mean() / 2
            loss.backward()
            optimizer.step()
    return next(model.parameters()).detach().numpy().ravel().astype(float)


def bandmf_strategy(_X: Any, _y: Any, job: dict[str, Any]) -> Any:
    """Return the first column of BandMF's strategy matrix, of norm 1. It needs no rows."""
    from jax_privacy.matrix_factorization import toeplitz

    return np.asarray(toeplitz.optimize_banded_toeplitz(n=job["steps"], bands=job["bands"]), dtype=float)


PEERS = {
    "diffprivlib_logistic": diffprivlib_logistic,
    "diffprivlib_linear": diffprivlib_linear,
    "opacus": opacus,
    "bandmf_strategy": bandmf_strategy,
}


def main() -> None:
    """Answer each line of the input."""
    warnings.simplefilter("ignore")
    with np.load(sys.argv[1]) as arrays:
        X, y = arrays["X"], arrays["y"]
    for line in sys.stdin:
        job = json.loads(line)
        start = time.process_time()
        w = PEERS[job["peer"]](X, y, job)
        print(json.dumps({"w": w.tolist(), "seconds": time.process_time() - start}), flush=True)


if __name__ == "__main__":
    main()
