"""purse audit."""

import json

import pytest

from app.cli import main


@pytest.mark.slow
def test_it_prints_promise_bound_and_power_for_a_method(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["audit", "output_perturbation", "--runs", "2000"])
    said = capsys.readouterr().out
    assert ended.value.code == 0
    assert "promised epsilon" in said.splitlines()[0]
    assert "half the noise caught" in said
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
