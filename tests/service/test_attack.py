"""Dear requests: `make attack` leaves out no route that an analyst may call, and what is dear is done in turns."""

import pytest

from app.http.work import Turns
from app.pages.forms import MAX_OPTIONS
from tests.heavy.attack import GROUPS
from tests.heavy.dearest import Facts, callable_routes, requests, requests_by_route
from tests.support.pages import visit
from tests.support.service import SPEC, Service

RELEASED = dict.fromkeys(("statistic", "model", "profile", "trained", "evaluation", "table1", "regression"), "job_a")
FACTS = Facts(
    "token", "ds_people", "ds_wide", "ds_census", "ds_grouped", RELEASED, "sess_a", "sess_b", ["sess_c"], {}, "hook_a"
)


def test_every_route_that_an_analyst_may_call_has_its_dearest_request() -> None:
    routes = callable_routes()
    assert set(requests_by_route(FACTS)) == set(routes), "tests/heavy/dearest.py needs a request for each route"
    sent_requests = requests(FACTS, routes)
    assert [(request.method, request.route) for request, _ in zip(sent_requests, routes, strict=False)] == routes
    assert all(any(group(route) for name, group in GROUPS.items() if name != "every route") for route in routes)


@pytest.fixture(scope="module")
def wide(shared: Service) -> str:
    """A dataset of more columns than a page lists."""
    names = [f"c{number}" for number in range(MAX_OPTIONS + 10)]
    columns = [{"name": name, "type": "number", "lower": 0, "upper": 9} for name in names]
    rows = "\n".join([",".join(names), *(",".join(str(row % 10) for _ in names) for row in range(50))])
    spec = {"name": "wide", "columns": columns, "budget": SPEC["budget"]}
    return str(shared.registered(spec, rows.encode())["id"])


@pytest.mark.parametrize("path", ["/v1/jobs", "/v1/datasets/{}", "/pages/datasets/{}", "/pages/datasets/{}/new"])
def test_lists_and_pages_wait_for_their_callers_turn(
    shared: Service, wide: str, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    callers, take = list[str](), Turns.take

    async def noted(turns: Turns, caller: str) -> None:
        callers.append(caller)
        await take(turns, caller)

    token = shared.tokens["analyst"]
    visit(shared, token, "/pages")  # the token is known from here on
    monkeypatch.setattr(Turns, "take", noted)
    headers = {"Authorization": f"Bearer {token}"}  # pages ignore it
    assert visit(shared, token, path.format(wide), headers=headers).status_code == 200
    assert callers
    assert len(set(callers)) == 1


def test_a_form_and_a_page_of_many_columns_are_bounded(shared: Service, wide: str) -> None:
    token = shared.tokens["analyst"]
    page = visit(shared, token, f"/pages/datasets/{wide}").text
    assert page.count('<tr><th scope="row"><bdi>c') == MAX_OPTIONS
    form = visit(shared, token, f"/pages/datasets/{wide}/new").text
    assert '<option value="c0"' not in form
    assert "features:c0" not in form
    filled = {"target": "c0", "features": "c1\nc2", "privacy.epsilon": "0.5"}
    quoted = visit(shared, token, f"/pages/datasets/{wide}/quote", "POST", data=filled)
    assert "of the budget" in quoted.text
