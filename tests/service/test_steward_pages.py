"""A steward's tokens and changes to a dataset on pages, and synthetic rows and predictions for analysts."""

import csv
import io
import json
import re
from html import unescape

import pytest

from app.pages.words import number
from purse.model import Model
from tests.support.pages import visit
from tests.support.service import JOB, SPEC, STEWARD, Service, people


def _manage(service: Service, dataset: str, form: str, token: str = STEWARD, **values: str) -> int:
    path = f"/pages/datasets/{dataset}/manage/{form}"
    return visit(service, token, path, "POST", data=values).status_code


def test_a_new_token_is_shown_once_and_revoked(shared: Service) -> None:
    response = visit(
        shared, STEWARD, "/pages/tokens", "POST", data={"name": "eve", "role": "analyst", "lifetime": "30 days"}
    )
    assert response.status_code == 201
    [secret] = re.findall(r"<code>(purse_[\w-]+)</code>", response.text)
    assert visit(shared, secret, "/pages").status_code == 200
    page = visit(shared, STEWARD, "/pages/tokens").text
    assert "<bdi>eve</bdi>" in page
    assert secret not in page
    [token] = shared.call("steward", "GET", "/v1/tokens?name=eve").json()["items"]
    assert token["expires_at"] is not None
    assert visit(shared, STEWARD, "/pages/tokens/revoke", "POST", data={"token": token["id"]}).status_code == 303
    assert visit(shared, secret, "/pages").headers["Location"] == "/pages/sign-in?expired=true"
    wrong = visit(shared, STEWARD, "/pages/tokens", "POST", data={"name": "", "role": "analyst"})
    assert (wrong.status_code, 'role="alert"' in wrong.text) == (422, True)


@pytest.mark.parametrize("path", ["/pages/tokens", "/pages/datasets/{}/manage"])
def test_only_stewards_manage(shared: Service, path: str) -> None:
    place = path.format(shared.dataset())
    for role in ("analyst", "auditor"):
        assert visit(shared, shared.tokens[role], place).status_code == 403
        assert place not in visit(shared, shared.tokens[role], "/pages").text
    assert visit(shared, STEWARD, place).status_code == 200


def test_a_dataset_is_renamed_frozen_and_given_a_larger_budget(shared: Service) -> None:
    dataset = shared.dataset()
    assert _manage(shared, dataset, "name", name="renamed here") == 303
    assert _manage(shared, dataset, "freeze", frozen="true") == 303
    dataset_now = shared.call("steward", "GET", f"/v1/datasets/{dataset}").json()
    assert (dataset_now["name"], dataset_now["budget"]["frozen"]) == ("renamed here", True)
    assert "Unfreeze the dataset" in visit(shared, STEWARD, f"/pages/datasets/{dataset}/manage").text
    assert _manage(shared, dataset, "freeze", frozen="false") == 303
    assert _manage(shared, dataset, "budget", **{"budget.epsilon": "4", "budget.delta": "1e-6"}) == 303
    dataset_now = shared.call("steward", "GET", f"/v1/datasets/{dataset}").json()
    assert (dataset_now["budget"]["frozen"], dataset_now["budget"]["epsilon"]) == (False, 4.0)
    assert _manage(shared, dataset, "budget", **{"budget.epsilon": "a lot", "budget.delta": "1e-6"}) == 422
    assert _manage(shared, dataset, "sessions", sessions="refused") == 303
    ledger = visit(shared, STEWARD, f"/pages/datasets/{dataset}/ledger")
    assert (ledger.status_code, ledger.text.count("<tr data-sequence")) == (200, 6), "one row for each change"


def test_a_dataset_without_a_file_is_declared_in_a_form(shared: Service) -> None:
    values = {"name": "declared here", "rows": "4000", "budget.epsilon": "2", "budget.delta": "1e-6"}
    response = visit(shared, STEWARD, "/pages/declare", "POST", data=values | {"sessions": "no_refund"})
    assert response.status_code == 303
    dataset = shared.call("steward", "GET", f"/v1/datasets/{response.headers['location'].rpartition('/')[2]}").json()
    assert [dataset[name] for name in ("name", "data", "rows", "sessions")] == [
        *("declared here", "elsewhere", 4000, "no_refund")
    ]
    refused = visit(shared, STEWARD, "/pages/declare", "POST", data=values | {"name": "another", "unit.persons": "9"})
    assert refused.status_code == 422
    assert 'value="another"' in refused.text
    persons = values | {"name": "of persons", "rows": "", "unit.persons": "900", "unit.max_rows": "4"}
    assert visit(shared, STEWARD, "/pages/declare", "POST", data=persons).status_code == 303
    assert visit(shared, shared.tokens["analyst"], "/pages/declare").status_code == 403


def test_records_elsewhere_offer_a_rule_for_sessions_and_nothing_that_is_computed(shared: Service) -> None:
    spec = json.dumps({"name": "of another place", "data": "elsewhere", "rows": 4321, "budget": SPEC["budget"]})
    dataset = shared.call("steward", "POST", "/v1/datasets", files={"spec": (None, spec)}).json()["id"]
    page = visit(shared, STEWARD, f"/pages/datasets/{dataset}").text
    assert [part in page for part in ("records elsewhere", "4,321", "/manage")] == [True] * 3
    assert [part in page for part in ("New model", "New statistic", "Synthetic rows", "Columns")] == [False] * 4
    assert "records elsewhere" in visit(shared, STEWARD, "/pages").text
    assert _manage(shared, dataset, "sessions", sessions="no_refund") == 303
    assert shared.call("steward", "GET", f"/v1/datasets/{dataset}").json()["sessions"] == "no_refund"
    assert _manage(shared, dataset, "sessions", sessions="sometimes") == 422
    manage = visit(shared, STEWARD, f"/pages/datasets/{dataset}/manage").text
    assert ["Attach a sample" in manage, "Withdraw the dataset" in manage] == [False, True]


def test_a_charged_dataset_offers_no_change_that_is_refused(shared: Service) -> None:
    dataset = shared.dataset()
    place = f"/pages/datasets/{dataset}/manage"
    fields = ('name="name"', 'name="budget.filter"', 'value="3"')
    assert all(field in visit(shared, STEWARD, place).text for field in fields)
    shared.call("steward", "POST", "/v1/jobs", json=JOB | {"dataset": dataset})
    page = visit(shared, STEWARD, place).text
    assert [field in page for field in fields] == [False, False, True]


def test_an_empty_number_of_an_outside_release_is_reported_at_its_field(shared: Service) -> None:
    values = {"label": "x", "event.type": "PoissonSampledDpEvent", "event.sampling_probability": "0.1"}
    page = visit(shared, STEWARD, f"/pages/datasets/{shared.dataset()}/manage/charges", "POST", data=values).text
    assert "<strong>Noise multiplier</strong>: is required" in page


@pytest.mark.parametrize(
    ("values", "event"),
    [
        (
            {"event.type": "GaussianDpEvent", "event.noise_multiplier": "20"},
            {"type": "GaussianDpEvent", "noise_multiplier": 20.0},
        ),
        (
            {
                "event.type": "PoissonSampledDpEvent",
                "event.noise_multiplier": "20",
                "event.sampling_probability": "0.1",
                "event.count": "3",
            },
            {
                "type": "SelfComposedDpEvent",
                "count": 3,
                "event": {
                    "type": "PoissonSampledDpEvent",
                    "sampling_probability": 0.1,
                    "event": {"type": "GaussianDpEvent", "noise_multiplier": 20.0},
                },
            },
        ),
        (
            {"event.type": "EpsilonDeltaDpEvent", "event.epsilon": "0.1"},
            {"type": "EpsilonDeltaDpEvent", "epsilon": 0.1, "delta": 0.0},
        ),
    ],
)
def test_an_outside_release_is_charged(shared: Service, values: dict[str, str], event: dict[str, object]) -> None:
    dataset = shared.dataset()
    assert _manage(shared, dataset, "charges", label="census table", **values) == 303
    [*_, entry] = shared.entries(dataset)
    assert entry["body"]["event"] == event
    assert _manage(shared, dataset, "charges", label="another", **{"event.type": values["event.type"]}) == 422


def test_a_public_sample_is_attached_and_removed(shared: Service) -> None:
    dataset = shared.dataset()
    place = f"/pages/datasets/{dataset}/manage"
    form = {"data": {"published": "a yearbook"}, "files": {"file": ("sample.csv", people(30))}}
    assert visit(shared, STEWARD, f"{place}/sample", "POST", **form).status_code == 303
    assert "<bdi>a yearbook</bdi>" in visit(shared, STEWARD, place).text
    assert _manage(shared, dataset, "sample/remove") == 303
    assert "a yearbook" not in visit(shared, STEWARD, place).text
    assert visit(shared, STEWARD, f"{place}/sample", "POST", data={"published": "x"}).status_code == 422


def test_a_dataset_is_withdrawn_only_by_its_name(shared: Service) -> None:
    dataset = shared.dataset()
    name = shared.call("steward", "GET", f"/v1/datasets/{dataset}").json()["name"]
    assert _manage(shared, dataset, "delete", confirmation="another name") == 422
    assert shared.call("steward", "GET", f"/v1/datasets/{dataset}").json()["data"] == "stored"
    assert _manage(shared, dataset, "delete", confirmation=name) == 303
    assert shared.call("steward", "GET", f"/v1/datasets/{dataset}").status_code == 404


def test_synthetic_rows_are_the_interfaces_own(shared: Service) -> None:
    dataset, analyst = shared.dataset(), shared.tokens["analyst"]
    rows = visit(shared, analyst, f"/pages/datasets/{dataset}/twin?rows=7")
    assert rows.content == shared.call("analyst", "GET", f"/v1/datasets/{dataset}/twin?rows=7").content
    assert "attachment" in rows.headers["Content-Disposition"]
    assert visit(shared, analyst, f"/pages/datasets/{dataset}/twin?rows=0").status_code == 422


@pytest.mark.slow
def test_a_model_predicts_for_the_rows_of_a_file(shared: Service) -> None:
    job = shared.done(JOB | {"dataset": shared.dataset()})["id"]
    place, analyst = f"/pages/jobs/{job}/predictions", shared.tokens["analyst"]
    assert place in visit(shared, analyst, f"/pages/jobs/{job}").text

    def predicted(file: bytes, **values: str) -> list[list[str]]:
        answer = visit(shared, analyst, place, "POST", data=values, files={"file": ("new.csv", file)})
        assert answer.status_code == 200, answer.text
        return list(csv.reader(io.StringIO(answer.text)))

    comma = predicted(b"sex,note,age\nf,x,30\nm,y,70\n")
    assert comma[0] == ["prediction"]
    assert all(0 < float(value) < 1 for [value] in comma[1:])
    assert predicted(b"age;sex\n30,0;f\n70;m\n", format="semicolon") == comma
    for file in (b"", b"age,sex\n", b"age,sex\n1\n", b"\xff\xfe\n\xff", b"sex\nf\n"):
        refused = visit(shared, analyst, place, "POST", files={"file": ("new.csv", file)})
        assert refused.status_code == 422, file
    assert "age" in unescape(refused.text), "the column that is absent is named"
    large = visit(shared, analyst, place, "POST", files={"file": ("new.csv", b"x" * (2**20 + 1))})
    assert large.status_code == 413


@pytest.mark.slow
def test_a_model_predicts_for_one_row_of_a_form(shared: Service) -> None:
    """The result is that of the file form; an unreadable number is named; a weak category is reported."""
    job = shared.done(JOB | {"dataset": shared.dataset()})["id"]
    path, analyst = f"/pages/jobs/{job}/predictions", shared.tokens["analyst"]
    page = unescape(visit(shared, analyst, f"/pages/jobs/{job}").text)
    released = Model.model_validate_json(shared.call("analyst", "GET", f"/v1/jobs/{job}/model").content)
    unsupported = released.unsupported_categories.get("sex", [])
    assert ("left out here" in page) == bool(unsupported)
    assert not any(f">sex = {category}<" in page for category in unsupported)
    assert all(text in page for text in ('name="row.0"', 'placeholder="50 (0 to 100)"', "<option>(other)</option>"))
    answer = visit(shared, analyst, f"{path}/row", "POST", data={"row.0": "30", "row.1": "f"})
    file = visit(shared, analyst, path, "POST", files={"file": ("new.csv", b"age,sex\n30,f\n")}).text
    assert answer.status_code == 200, answer.text
    assert number(float(file.split()[-1]), 3) in answer.text
    undeclared = visit(shared, analyst, f"{path}/row", "POST", data={"row.1": "(other)"})
    for predicted, category in ((answer, "f"), (undeclared, "(other)")):
        assert ('class="note"' in predicted.text) == (category in unsupported)
    wrong = visit(shared, analyst, f"{path}/row", "POST", data={"row.0": "old"}).text
    assert 'data-where="row.0"' in wrong
    assert "P(" not in wrong
