"""Every page with real content, as a steward, an analyst and an auditor see it: readable by everybody, and in pictures.

`make screenshots` keeps the pictures, some of them on a phone or in dark colors.
"""

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from playwright.sync_api import Browser, expect

from app.demo import data
from purse import Client
from purse.wire.budgets import Budget
from tests.support.browser import PHONE, Visitor
from tests.support.live import Live
from tests.support.patience import PATIENCE

NAME = "Health insurance"
MODEL: dict[str, Any] = {"target": data.TARGET, "positive": data.POSITIVE, "privacy": {"epsilon": 1.0}}
STATISTICS: dict[str, dict[str, Any]] = {
    "histogram": {"method": {"name": "counts", "bins": 12}, "columns": ["age"]},
    "cross": {"method": {"name": "counts"}, "columns": ["health", data.TARGET]},
    "correlation": {"method": {"name": "covariance"}, "columns": ["age", "education", "income", "mental_health"]},
    "means": {"method": {"name": "means"}, "columns": ["age", "sex", "income"]},
    "profile": {"method": {"name": "profile"}},
}


@pytest.fixture(scope="module")
def ids(server: Live, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The ids of a dataset, its holdout set and released jobs, and the tokens of an analyst and an auditor."""
    file = tmp_path_factory.mktemp("insurance") / "randhie.csv"
    uploaded, _ = data.split(data.rows())
    data.write(file, uploaded)
    spec = data.spec(Budget(epsilon=4.0, delta=1e-6)).model_copy(update={"name": NAME, "holdout": 0.2})
    with Client(server.url, server.token, timeout=PATIENCE) as steward:
        dataset = steward.datasets.upload(file, spec=spec.model_dump(exclude_none=True))
        created = {"dataset": dataset.id, "holdout": dataset.holdout or "", "steward": server.token}
        created["analyst"] = steward.tokens.create("Ada", "analyst").token
        created["auditor"] = steward.tokens.create("The auditor", "auditor").token
        steward.datasets.grant(dataset.id, "Ada")
        steward.datasets.allot(dataset.id, "Ada", share=0.5)
        clinic = {"name": "clinic", "rows": 2000, "budget": {"epsilon": 3.0, "delta": 1e-6}}
        created["elsewhere"] = steward.datasets.declare(spec=clinic).id
        steward.datasets.grant("clinic", "Ada")
    with Client(server.url, created["analyst"], timeout=PATIENCE) as analyst:
        job = analyst.jobs.submit(dataset=dataset.id, **MODEL)
        job.result(PATIENCE, progress=False)
        evaluation = job.evaluate(privacy=1.0)
        evaluation.evaluation(PATIENCE, progress=False)
        created |= {"model": job.id, "evaluation": evaluation.id}
        plan = [{"type": "GaussianDpEvent", "noise_multiplier": 40.0}]
        created["session"] = analyst.sessions.open(dataset="clinic", events=plan, title="a count").id
        for name, request in STATISTICS.items():
            job = analyst.jobs.submit(dataset=dataset.id, privacy={"epsilon": 0.2}, **request)
            (job.profile if name == "profile" else job.statistic)(PATIENCE, progress=False)
            created[name] = job.id
    return created


PAGES: dict[str, tuple[str, str, int]] = {
    "datasets": ("analyst", "", 0),
    "dataset": ("analyst", "/datasets/{dataset}", 1),
    "new-model": ("analyst", "/datasets/{dataset}/new?kind=model", 0),
    "new-statistic": ("analyst", "/datasets/{dataset}/new?kind=statistic", 0),
    "new-evaluation": ("analyst", "/datasets/{holdout}/new?kind=evaluation&model={model}", 0),
    "jobs": ("analyst", "/jobs", 0),
    "model": ("analyst", "/jobs/{model}", 0),
    "evaluation": ("analyst", "/jobs/{evaluation}", 2),
    "histogram": ("analyst", "/jobs/{histogram}", 1),
    "cross": ("analyst", "/jobs/{cross}", 0),
    "correlation": ("analyst", "/jobs/{correlation}", 0),
    "means": ("analyst", "/jobs/{means}", 0),
    "profile": ("analyst", "/jobs/{profile}", 7),
    "sessions": ("analyst", "/sessions", 0),
    "session": ("analyst", "/sessions/{session}", 0),
    "elsewhere": ("analyst", "/datasets/{elsewhere}", 0),
    "glossary": ("analyst", "/glossary", 0),
    "tokens": ("steward", "/tokens", 0),
    "declare": ("steward", "/declare", 0),
    "people": ("steward", "/datasets/{dataset}/people", 0),
    "manage": ("steward", "/datasets/{dataset}/manage", 0),
    "dataset-steward": ("steward", "/datasets/{dataset}", 1),
    "ledger": ("auditor", "/datasets/{dataset}/ledger", 2),
    "receipt": ("auditor", "/jobs/{model}/receipt", 1),
    "receipts": ("auditor", "/receipts", 0),
    "jobs-auditor": ("auditor", "/jobs", 0),
}
"""By the name of the picture: the role, the address, and the number of charts."""
PICTURES = {"dataset", "model", "evaluation", "cross", "histogram", "ledger", "receipt", "people", "manage", "tokens"}
PHONE_PICTURES = {"jobs", "model"}  # in dark colors


@pytest.fixture(scope="module")
def visitors(browser: Browser, server: Live, ids: dict[str, str]) -> Iterator[dict[str, Visitor]]:
    """One visitor of each role, because a new one for each page takes two seconds of CPU."""
    with ExitStack() as stack:
        roles = ("analyst", "steward", "auditor")
        yield {role: stack.enter_context(Visitor.arrived(browser, server.url, ids[role], first=None)) for role in roles}


@pytest.mark.parametrize("name", PAGES)
def test_everybody_can_read_every_page(visitors: dict[str, Visitor], ids: dict[str, str], name: str) -> None:
    """Also the parts that are folded at first; each chart is drawn, and a table has its numbers."""
    role, address, charts = PAGES[name]
    visitor = visitors[role]
    page = visitor.page
    page.goto(f"/pages{address.format(**ids)}")
    expect(page.locator(".u-over")).to_have_count(charts)
    expect(page.get_by_role("status").filter(has_text="loading")).to_have_count(0)
    if name in PICTURES:
        visitor.shoot(name)
    if name in PHONE_PICTURES:
        visitor.shoot(f"{name}-phone", PHONE, "dark")
    page.locator("details:not([open]) > summary").evaluate_all("all => all.forEach((each) => each.click())")
    assert page.get_by_role("table").count() >= charts
    visitor.check()
    assert (visitor.elsewhere, visitor.complaints) == ([], [])
