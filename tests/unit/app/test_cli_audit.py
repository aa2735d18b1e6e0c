"""purse audit."""

import json

import pytest

from solvers.audit.findings import Finding
from tests.support.cli import purse


@pytest.mark.slow
def test_the_audit_prints_guarantee_bound_and_power_of_a_method(capsys: pytest.CaptureFixture[str]) -> None:
    code, report, noted = purse(capsys, "audit", "inverse_sensitivity", "--runs", "2000")
    assert code == 0
    assert "replace_one: inverse_sensitivity" in noted
    assert "lower bound" in report.splitlines()[0]
    assert " holds\n" in report
    assert "BROKEN" not in report


@pytest.mark.slow
def test_the_audit_prints_json(capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = purse(capsys, "audit", "inverse_sensitivity", "--json")
    (finding,) = json.loads(out)["inverse_sensitivity"]
    assert finding["lower_bound"] <= finding["promise"] < finding["half_noise"]


def test_the_error_about_an_unknown_method_lists_the_methods(capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = purse(capsys, "audit", "magic")
    assert (code, "dp_svrg" in err) == (1, True)
    code, _, err = purse(capsys, "audit", "dp_gd", "--neighbors", "add_remove")
    assert (code, "replace_one" in err) == (2, True)


@pytest.mark.parametrize("options", [[], ["--json"]], ids=str)
def test_each_method_is_reported_when_it_is_finished(
    options: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    reports = []

    def attack(*_: object, **__: object) -> list[Finding]:
        reports.append(capsys.readouterr())
        return [Finding(1e-6, 1.0, 0.5, 1.5), Finding(1e-3, 1.0, 0.5, 0.75)]

    monkeypatch.setattr("solvers.audit.findings.audit", attack)
    code, out, _ = purse(capsys, "audit", "all", *options)
    assert code == 0
    assert all(report.out == "" for report in reports)
    assert [report.err.count("1 holds, 1 undecided") for report in reports] == [0] + [1] * (len(reports) - 1)
    if options:
        assert len(json.loads(out)) == len(reports)


@pytest.mark.parametrize("options", [[], ["--json"]], ids=str)
def test_a_broken_guarantee_is_reported_and_fails_the_command(
    options: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    findings = {"dp_gd": [Finding(1e-6, 1.0, 0.5, 1.5), Finding(1e-3, 0.75, 0.8125, 1.5)]}
    monkeypatch.setattr(
        "solvers.audit.findings.audit", lambda name, _runs, relation: findings[name] if relation == "zero_out" else []
    )
    code, out, err = purse(capsys, "audit", "dp_gd", "--neighbors", "zero_out", *options)
    assert code == 1
    if not options:
        assert "guarantee" in err
        assert ["holds" in line for line in out.splitlines()[-2:]] == [True, False]
        assert out.count("BROKEN") == 1
