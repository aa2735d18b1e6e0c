"""Prices are functions of public facts: no database, no data, no engine in sight."""

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import pytest

from accounting import calibration
from accounting.accountants import PldAccountant
from accounting.errors import CalibrationFailed, FilterMismatch, OutOfRange
from accounting.plan import Plan
from accounting.records.allotments import Standing
from accounting.records.ledger import advance
from accounting.records.signing import sign_json
from app.datasets.store import DatasetRow
from app.http.errors import ApiError
from app.quotes import pricing
from app.settings import Settings
from app.sources.design import Design
from app.wire import Quote, TuningRequest
from purse.wire.datasets import DatasetSpec
from solvers.methods import Method
from tests.support.calculations import price
from tests.support.chains import charge_of
from tests.support.quotes import COLUMNS, REQUEST, SETTINGS, dataset, priced
from tests.support.receipts import KEY, make


def quoted(row: DatasetRow | None = None, **changes: Any) -> Quote:
    row = row or dataset()
    return quote_of(priced(row, **changes), row)


def quote_of(quoted_price: pricing.Priced, row: DatasetRow) -> Quote:
    return quoted_price.outlook(Standing(row.state))


def refused(row: DatasetRow | None = None, settings: Settings = SETTINGS, **changes: Any) -> tuple[str, str]:
    """Return the code and the message of the refusal."""
    with pytest.raises(ApiError) as raised:
        priced(row, settings, **changes)
    details = raised.value.details()
    return details.code, f"{details.detail} {[v.where + ' ' + v.what for v in details.violations or []]}"


def of_words(rows: int, has_origin: bool = True) -> DatasetRow:
    """Return a dataset of 400 indicators, whose codes are 0 and 1 if they have an origin, otherwise -1 and 1."""
    word = {"type": "number", "lower": 0, "upper": 1} | ({"origin": 0} if has_origin else {})
    columns = [*({"name": f"word {i}", **word} for i in range(400)), COLUMNS[-1]]
    row = dataset(rows=rows)
    return replace(row, spec=DatasetSpec.model_validate(row.spec.model_dump() | {"columns": columns}))


def classes(quoted_price: pricing.Priced) -> tuple[str, ...] | None:
    assert isinstance(quoted_price.spec.design, Design)
    return quoted_price.spec.design.classes


class TestDefaults:
    def test_a_category_is_fitted_by_the_logistic_loss(self) -> None:
        assert priced().spec.problem.loss.name == "logistic"
        assert classes(priced()) == ("<=50K", ">50K")

    def test_more_than_two_categories_by_softmax(self) -> None:
        quoted_price = priced(target="color")
        assert (quoted_price.spec.problem.loss.name, quoted_price.spec.problem.outputs) == ("softmax", 3)
        assert classes(quoted_price) == ("red", "green", "blue")
        assert quoted_price.spec.model_dump()["problem"]["loss"] == {"classes": 3, "name": "softmax"}

    def test_a_number_by_squares(self) -> None:
        assert priced(target="age").spec.problem.loss.name == "squared"

    def test_delta_is_the_datasets(self) -> None:
        assert quoted().delta == 1e-6
        assert quoted(privacy={"epsilon": 0.5, "delta": 1e-8}).delta == 1e-8

    @pytest.mark.slow
    def test_every_field_of_the_method_is_filled(self) -> None:
        for name in ("auto", "dp_gd", "dp_acc_md", "dp_svrg", "dp_svrg_pp"):
            assert None not in quoted(method={"name": name}).model_dump()["method"].values()

    def test_the_row_norm_is_derived_from_the_schema(self) -> None:
        assert quoted().row_norm == math.sqrt(4 + 1)  # age, sex, color, only; the intercept
        assert quoted(row_norm=1.0).row_norm == 1.0
        assert quoted(row_norm=1e6).row_norm == math.sqrt(4 + 1)

    def test_the_dimension_counts_every_code(self) -> None:
        assert quoted().dimension == 1 + 3 + 4 + 2 + 1
        assert quoted(features=["age"]).dimension == 2
        assert quoted(features=["age"], target="color").dimension == 3 * 2


@pytest.mark.parametrize("method_name", ["auto", "dp_gd", "dp_svrg", "localization", "objective_perturbation"])
def test_a_method_is_resolved_once(method_name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """This includes `auto` and the methods that it compares."""
    resolved: list[str] = []

    def counted(kind: Any) -> Any:
        resolve = kind.resolve

        def once(method: Any, *facts: Any) -> Any:
            resolved.append(method.name)
            return resolve(method, *facts)

        return once

    for kind in get_args(Method):
        monkeypatch.setattr(kind, "resolve", counted(kind))
    loss: dict[str, Any] = {"loss": {"name": "hinge"}} if method_name == "localization" else {}
    quoted_price = priced(method={"name": method_name}, **loss)
    assert quoted_price.spec.method.name in resolved
    assert len(set(resolved)) == len(resolved)


class TestPrice:
    def test_a_quote_states_the_queries_and_their_noise(self) -> None:
        quote = quoted(method={"name": "dp_gd", "steps": 50})
        query, *moments = quote.queries
        assert (query.name, query.count, query.mechanism) == ("gradient", 50, {"name": "gaussian"})
        assert [moment.name for moment in moments] == ["means", "spread", "variances"]
        assert quote.epsilon <= 0.5
        assert quote.gradient_evaluations == (50 + 3) * 20_000
        # std = z G / n, but for the lattice
        assert quote.gradient_bound is not None
        assert query.noise_std == pytest.approx(query.noise_multiplier * quote.gradient_bound / 20_000, rel=1e-3)
        assert quote.gradient_bound == quote.row_norm

    def test_a_quote_states_the_preparation_and_its_reason(self) -> None:
        by_default = quoted(method={"name": "dp_gd"})
        assert by_default.preparation.name == "private"
        assert "standardized coefficients" in by_default.preparation.statement
        assert by_default.row_norm == 1.0
        for change, reason in (
            ({"preparation": {"name": "declared"}}, "requested"),
            ({"row_norm": 0.5}, "clipped"),
        ):
            kept_as_declared = quoted(method={"name": "dp_gd"}, **change)
            assert kept_as_declared.preparation.name == "declared"
            assert reason in kept_as_declared.preparation.reason

    def test_states_that_candidates_and_regression_tables_prepare_rows_themselves(self) -> None:
        body = {**REQUEST, "candidates": [{"method": {"name": "dp_gd"}}, {}], "repeats": 2}
        tuning = price(dataset(), TuningRequest.model_validate_json(json.dumps(body)), SETTINGS)
        quotes = (
            quote_of(tuning, dataset()),
            quoted(inference=True),
            quoted(method={"name": "adaptive_gd"}),
            quoted(method={"name": "dp_gd"}, preparation={"name": "declared"}),
        )
        assert len({quote.preparation.statement for quote in quotes}) == 4
        own = quoted(method={"name": "adaptive_gd"}).preparation
        assert own.name == "by_method"
        code, text = refused(method={"name": "dp_gd"}, row_norm=0.5, preparation={"name": "private"})
        assert (code, "clipped" in text) == ("unsupported_combination", True)
        code, text = refused(method={"name": "adaptive_gd"}, preparation={"name": "declared"})
        assert (code, "standardizes rows itself" in text) == ("unsupported_combination", True)

    def test_auto_keeps_a_slope_limit_for_numbers_and_states_the_reason(self) -> None:
        quote = quoted(target="age", features=["sex", "color"], slope_limit=0.25)
        assert (quote.method.name, quote.slope_limit) == ("dp_gd", 0.25)
        assert quote.gradient_bound == 0.25 * quote.row_norm
        assert "adaptive_gd" in quote.reason
        assert quoted(target="age", features=["sex", "color"]).method.name == "adaptive_gd"

    def test_a_degenerate_problem_is_refused(self) -> None:
        code, text = refused(domain={"name": "simplex"}, features=[])
        assert (code, "a single point" in text) == ("unsupported_combination", True)
        code, text = refused(row_norm=1e-300)
        assert (code, "row_norm" in text) == ("unsupported_combination", True)

    @pytest.mark.slow
    @pytest.mark.parametrize("name", ["dp_svrg", "dp_svrg_pp"])
    def test_the_quote_of_the_printed_form_states_its_larger_noise(self, name: str) -> None:
        printed, safeguarded = (
            quoted(method={"name": name, "form": f, "batch": 400}) for f in ("printed", "safeguarded")
        )
        step = printed.queries[0]
        assert step.mechanism == {"name": "svrg_step", "batch": 400, "rows": 20_000}
        assert printed.gradient_evaluations == safeguarded.gradient_evaluations
        assert step.noise_std > 2 * safeguarded.queries[1].noise_std

    def test_the_cost_is_computed_by_the_filter(self) -> None:
        row = dataset()
        quoted_price = priced(row)
        assert quoted_price.cost == row.state.filter.cost(quoted_price.planned.release.plan)

    def test_the_remaining_budget_equals_the_ledgers_after_the_charge(self) -> None:
        row = dataset()
        quoted_price = priced(row)
        quote = quote_of(quoted_price, row)
        assert quote.fits
        assert quote.remaining.epsilon == 3.0
        assert quoted_price.cost is not None
        state_after, _ = advance(row.state, charge_of("job_1", quoted_price.cost, quoted_price.guarantee), "now")
        assert quote.remaining_after is not None
        assert quote.remaining_after.epsilon == pricing.remaining(Standing(state_after)).epsilon < 3.0

    def test_one_that_does_not_fit_is_still_priced(self) -> None:
        quote = quoted(privacy={"epsilon": 3.5})
        assert (quote.fits, quote.remaining_after) == (False, None)
        assert quote.queries


class TestForecast:
    def test_of_a_proven_bound(self) -> None:
        forecast = quoted(domain={"name": "l2_ball", "radius": 3.0}).forecast
        assert forecast.excess_risk is not None
        assert (forecast.distance, forecast.distance_certain) == (3.0, True)
        assert 0 < forecast.seconds < 3600
        assert "Proven" in forecast.statement

    def test_auto_states_its_reason_and_samples_only_if_the_filter_can_charge_it(self) -> None:
        huge: dict[str, Any] = {"features": ["age"], "privacy": {"epsilon": 1.0}}
        settings = Settings(home=Path("/nowhere"), max_gradient_evaluations=1e13)
        chosen = [priced(dataset(rows=10**9, kind=kind), settings, **huge).planned for kind in ("rdp", "gdp")]
        assert [planned.method.name for planned in chosen] == ["dp_svrg", "adaptive_gd"]
        assert "n = 1000000000" in chosen[0].reason


class TestWarnings:
    def test_of_a_large_delta(self) -> None:
        assert any("1/n" in text for text in quoted(dataset(rows=1000, delta=1e-3)).warnings)
        assert quoted().warnings == []

    def test_a_quote_warns_of_a_model_that_will_be_a_constant(self) -> None:
        """The warning depends on the noise and the method; dp_gd never releases a constant."""
        small = dataset(rows=20)
        assert [text for text in quoted(small).warnings if "constant" in text]
        assert not quoted(small, method={"name": "dp_gd"}).warnings

    def test_a_model_of_counts_is_advised_to_set_a_row_norm(self) -> None:
        """Only counts and indicators may be short rows. A quote with a row norm follows the advice."""
        for rows, text in ((1500, "coefficients small"), (50, "a constant")):
            kind, advice = quoted(of_words(rows)).warnings
            assert text in kind
            assert "set row_norm" in advice
            assert f"{math.sqrt(401):.3g}" in advice
        (constant,) = quoted(of_words(1500, has_origin=False)).warnings
        assert "a constant" in constant
        followed = quoted(of_words(1500), row_norm=2.0)
        assert followed.method.name != "adaptive_gd"
        assert not followed.warnings

    def test_the_ledger_charges_answers_that_a_model_of_small_coefficients_does_not_request(self) -> None:
        row = of_words(1500)
        quoted_price = priced(row)
        planned = quoted_price.planned.release.plan
        assert {query.name for query in planned.queries} == {"gradient", "means", "spread", "variances"}
        assert quoted_price.spec.release_plan.plan == planned
        assert quoted_price.cost == row.state.filter.cost(planned)

    def test_of_the_candidates_of_a_tuning_that_will_be_a_constant(self) -> None:
        """The noise of a candidate's own run decides."""
        candidates = [{"method": {"name": "dp_gd"}}, {"method": {"name": "adaptive_gd"}}, {}]
        body = {**REQUEST, "candidates": candidates, "repeats": 2}
        request = TuningRequest.model_validate_json(json.dumps(body))
        [warning] = price(dataset(rows=20), request, SETTINGS).warnings
        assert warning.endswith("Candidates: 2, 3.")
        [warning] = price(of_words(2000), request, SETTINGS).warnings
        assert "coefficients small" in warning
        assert warning.endswith("Candidates: 2, 3.")
        assert price(dataset(), request, SETTINGS).warnings == ()


class TestRefusals:
    @pytest.mark.parametrize(
        ("changes", "where"),
        [
            ({"target": "nothing"}, "body.target"),
            ({"features": ["nothing"]}, "body.features"),
            ({"target": "age", "positive": "17"}, "body.positive"),
        ],
    )
    def test_requests_that_do_not_fit_the_declaration(self, changes: dict[str, Any], where: str) -> None:
        """`test_sources_design.py` has every case."""
        code, text = refused(**changes)
        assert code == "invalid_request"
        assert where in text
        assert "nothing" not in text

    @pytest.mark.parametrize(
        "changes",
        [
            {"target": "age", "loss": {"name": "logistic"}},
            {"loss": {"name": "squared"}},
            {"target": "age", "loss": {"name": "huber_hinge"}},
            {"loss": {"name": "quantile", "level": 0.9}},
            {"target": "color", "loss": {"name": "softmax", "classes": 4}},
            {"target": "age", "loss": {"name": "softmax"}},
            {"target": "color", "loss": {"name": "squared"}},
            {"method": {"name": "dp_svrg", "batch": 20_001}},
        ],
        ids=[
            "logistic number",
            "squared category",
            "hinge number",
            "quantile category",
            "four classes of three",
            "softmax number",
            "squared three categories",
            "batch above n",
        ],
    )
    def test_combinations_without_a_proof(self, changes: dict[str, Any]) -> None:
        code, text = refused(**changes)
        assert code == "unsupported_combination"
        assert len(text) > 20, "the text states the reason"

    @pytest.mark.parametrize(
        ("changes", "words"),
        [
            ({"loss": {"name": "hinge"}, "method": {"name": "dp_gd"}}, ["Dp_gd", "smooth", "huber_hinge"]),
            ({"loss": {"name": "huber"}}, ["huber needs a number", "logistic, softmax, hinge, huber_hinge, sigmoid"]),
            ({"loss": {"name": "sigmoid"}, "target": "age"}, ["sigmoid needs a category", "squared, huber, absolute"]),
        ],
    )
    def test_the_error_about_an_unsuitable_loss_names_suitable_ones(
        self, changes: dict[str, Any], words: list[str]
    ) -> None:
        code, text = refused(**changes)
        assert code == "unsupported_combination"
        for word in words:
            assert word.lower() in text.lower()

    def test_gaussian_noise_under_a_pure_filter(self) -> None:
        methods = (
            ({"name": "output_perturbation", "noise": "gaussian"}, "laplace"),
            ({"name": "dp_gd"}, "Gaussian noise"),
        )
        for method, advice in methods:
            code, text = refused(dataset(epsilon=1.0, delta=0.0, kind="pure"), method=method)
            assert (code, advice in text) == ("method_filter_mismatch", True)

    def test_four_coefficients_are_too_many_for_a_grid(self) -> None:
        """The reason names the limit, under a pure budget as under any other."""
        domain = {"name": "linf_ball", "radius": 1.0}
        code, text = refused(method={"name": "inverse_sensitivity"}, domain=domain)
        assert code == "unsupported_combination"
        assert "3 coefficients" in text

    def test_a_run_that_is_too_long(self) -> None:
        small = Settings(home=Path("/nowhere"), max_gradient_evaluations=53 * 20_000)  # three are moments
        code, _ = refused(settings=small, method={"name": "dp_gd", "steps": 51})
        assert code == "out_of_range"
        assert priced(settings=small, method={"name": "dp_gd", "steps": 50})

    def test_a_run_of_too_many_answers(self) -> None:
        """Tiny batches are cheap in gradients and would hold a worker for days."""
        method = {"name": "dp_svrg", "epochs": 990, "inner_steps": 1_000_000, "batch": 1}
        code, text = refused(method=method)
        assert code == "out_of_range"
        assert "answers" in text

    def test_a_step_too_small_to_divide_by(self) -> None:
        assert priced(method={"name": "dp_gd", "step": 1e-307})

    def test_a_run_that_is_too_long_is_refused_before_its_noise_is_sought(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(calibration, "plan_of_least_noise", lambda *_: pytest.fail("its noise was sought"))
        method = {"name": "dp_svrg", "epochs": 1_000_000, "inner_steps": 1_000_000}
        assert refused(method=method)[0] == "out_of_range"

    @pytest.mark.parametrize(
        ("error", "code"),
        [
            (CalibrationFailed("no noise does it"), "unsupported_combination"),
            (OutOfRange("count is too large"), "out_of_range"),
            (FilterMismatch("no curve"), "method_filter_mismatch"),
            (ValueError("dp_svrg needs a smooth loss"), "unsupported_combination"),
        ],
    )
    def test_errors_of_the_solvers_are_refusals(
        self, error: Exception, code: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def plan(*_: Any, **__: Any) -> None:
            raise error

        monkeypatch.setattr("solvers.plan", plan)
        refusal_code, text = refused()
        assert refusal_code == code
        assert str(error)[1:] in text


class TestWork:
    """Tests that count compositions of privacy loss distributions, which take most of a quote's time."""

    @pytest.mark.slow
    @pytest.mark.parametrize(("method", "largest_count"), [("dp_gd", 0), ("dp_svrg", 14)])  # 0 and 7 today
    def test_a_repeated_quote_composes_nothing(
        self, method: str, largest_count: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        composed: list[float] = []
        epsilon_of = PldAccountant.epsilon

        def counted(self: PldAccountant, plan: Plan, delta: float) -> float:
            composed.append(delta)
            return epsilon_of(self, plan, delta)

        monkeypatch.setattr(PldAccountant, "epsilon", counted)
        for epsilon in (0.3117, 0.3118, 0.3119):  # no other test has these, so nothing is cached
            composed.clear()
            quoted(privacy={"epsilon": epsilon}, method={"name": method})
            assert len(composed) <= largest_count
            assert bool(composed) == bool(largest_count), "the counted method is the one that runs"
            composed.clear()
            quoted(privacy={"epsilon": epsilon}, method={"name": method})
            assert composed == []


@pytest.mark.slow
def test_a_tuning_whose_receipt_would_be_too_large_is_not_priced() -> None:
    """Review: 256 candidates were priced, charged and run, and nothing could be released."""

    def tuned(count: int, repeats: int) -> pricing.Priced:
        candidates = [{"method": {"name": "dp_gd", "steps": 2 + i}} for i in range(count)]
        body = {**REQUEST, "candidates": candidates, "repeats": repeats}
        return price(dataset(), TuningRequest.model_validate_json(json.dumps(body)), SETTINGS)

    with pytest.raises(ApiError) as raised:
        tuned(256, 1)
    details = raised.value.details()
    assert (details.code, "fewer candidates" in str(details.detail)) == ("out_of_range", True)
    spec = tuned(100, 2).spec
    facts: dict[str, Any] = {
        "method": spec.stated,
        "release_plan": spec.release_plan,
        "transcript": spec.release_plan.plan,
    }
    assert sign_json(make(**facts), KEY)
