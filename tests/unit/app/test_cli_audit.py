"""purse audit."""

import json

import pytest

from app.cli import main
from solvers.audit.cases import Finding


@pytest.mark.slow
def test_it_prints_promise_bound_and_power_for_a_method(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["audit", "inverse_sensitivity", "--runs", "2000"])
    said, noted = capsys.readouterr()
    assert ended.value.code == 0
    assert "replace_one: inverse_sensitivity" in noted
    assert "lower bound" in said.splitlines()[0]
    assert " holds\n" in said
    assert "BROKEN" not in said


@pytest.mark.slow
def test_for_machines(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["audit", "inverse_sensitivity", "--json"])
    (found,) = json.loads(capsys.readouterr().out)["inverse_sensitivity"]
    assert found["lower_bound"] <= found["promise"] < found["half_noise"]


def test_an_unknown_method_is_told_which_there_are(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["audit", "magic"])
    assert ended.value.code == 1
    assert "dp_svrg" in capsys.readouterr().err
    with pytest.raises(SystemExit) as ended:
        main(["audit", "dp_gd", "--neighbors", "add_remove"])
    assert ended.value.code == 2
    assert "replace_one" in capsys.readouterr().err


@pytest.mark.parametrize("options", [[], ["--json"]], ids=str)
def test_each_method_is_reported_when_it_is_finished(
    options: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    reports = []

    def attack(*_: object, **__: object) -> list[Finding]:
        reports.append(capsys.readouterr())
        return [Finding(1e-6, 1.0, 0.5, 1.5), Finding(1e-3, 1.0, 0.5, 0.75)]

    monkeypatch.setattr("solvers.audit.audit", attack)
    with pytest.raises(SystemExit) as ended:
        main(["audit", "all", *options])
    assert ended.value.code == 0
    assert all(report.out == "" for report in reports)
    assert [report.err.count("1 holds, 1 undecided") for report in reports] == [0] + [1] * (len(reports) - 1)
    if options:
        assert len(json.loads(capsys.readouterr().out)) == len(reports)


@pytest.mark.parametrize("options", [[], ["--json"]], ids=str)
def test_a_broken_promise_is_said_and_fails(
    options: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found = {"dp_gd": [Finding(1e-6, 1.0, 0.5, 1.5), Finding(1e-3, 0.75, 0.8125, 1.5)]}
    monkeypatch.setattr(
        "solvers.audit.audit", lambda name, _runs, relation: found[name] if relation == "zero_out" else []
    )
    with pytest.raises(SystemExit) as ended:
        main(["audit", "dp_gd", "--neighbors", "zero_out", *options])
    said = capsys.readouterr()
    assert ended.value.code == 1
    if not options:
        assert "guarantee" in said.err
        assert ["holds" in line for line in said.out.splitlines()[-2:]] == [True, False]
        assert said.out.count("BROKEN") == 1
