"""Opacus's own engine and optimizer, with steps that a session records before their noise is drawn."""

import warnings
from typing import Any

import numpy as np
import pytest

from purse import Client, ProblemError
from purse.integrations.recording import NotCovered, UnsupportedMechanism
from tests.integrations.conftest import Register
from tests.support.recorded import Recorded

torch = pytest.importorskip("torch", reason="PyTorch is not installed: run `make integrations`")
pytest.importorskip("opacus", reason="Opacus is not installed: run `make integrations`")

from opacus import PrivacyEngine  # noqa: E402
from opacus.utils.batch_memory_manager import BatchMemoryManager  # noqa: E402

from purse.integrations import opacus  # noqa: E402

BATCHES = 10
RATE = opacus.sampling_probability(range(BATCHES))
PLAN = [(opacus.step_event(1.0, RATE), 5)]


@pytest.fixture(autouse=True)
def _quiet() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def parts(rows: int = 40) -> dict[str, Any]:
    """Return a small model, its optimizer and its data loader of BATCHES batches."""
    torch.manual_seed(1)
    module = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU(), torch.nn.Linear(4, 2))
    features, classes = torch.randn(rows, 3), torch.randint(0, 2, (rows,))
    data = torch.utils.data.TensorDataset(features, classes)
    loader = torch.utils.data.DataLoader(data, batch_size=rows // BATCHES)
    return {"module": module, "optimizer": torch.optim.SGD(module.parameters(), lr=0.1), "data_loader": loader}


def step(model: Any, optimizer: Any, loader: Any) -> None:
    features, classes = next(iter(loader))
    optimizer.zero_grad()
    torch.nn.functional.cross_entropy(model(features), classes).backward()
    optimizer.step()


def weights(model: Any) -> list[Any]:
    return [parameter.detach().clone() for parameter in model.parameters()]


def are_equal(first: list[Any], second: list[Any]) -> bool:
    return all(torch.equal(a, b) for a, b in zip(first, second, strict=True))


@pytest.mark.parametrize("mode", ["hooks", "functorch", "ew"])
def test_each_step_is_recorded_before_its_noise_and_a_step_beyond_the_plan_is_not_executed(mode: str) -> None:
    session = Recorded(PLAN)
    engine = opacus.SessionEngine(session.handle)
    model, optimizer, loader = engine.make_private(**parts(), max_grad_norm=1.0, grad_sample_mode=mode)
    assert optimizer.noise_multiplier == 1.0
    for number in range(1, 6):
        weights_before = weights(model)
        step(model, optimizer, loader)
        assert session.total == number == len(engine.accountant)
        assert not are_equal(weights_before, weights(model))
    weights_before = weights(model)
    noise = torch.get_rng_state()
    features, classes = torch.zeros(4, 3), torch.zeros(4, dtype=torch.long)
    optimizer.zero_grad()
    torch.nn.functional.cross_entropy(model(features), classes).backward()
    with pytest.raises(Recorded.Exhausted):
        optimizer.step()
    assert are_equal(weights_before, weights(model))
    assert torch.equal(noise, torch.get_rng_state()), "noise was drawn although the step was not recorded"


def test_an_accountant_given_to_opacus_own_engine_records_before_the_weights_change() -> None:
    session = Recorded([(PLAN[0][0], 1)])
    engine = PrivacyEngine()
    engine.accountant = opacus.SessionAccountant(session.handle)
    model, optimizer, loader = engine.make_private(**parts(), max_grad_norm=1.0, noise_multiplier=1.0)
    step(model, optimizer, loader)
    weights_before = weights(model)
    with pytest.raises(Recorded.Exhausted):
        step(model, optimizer, loader)
    assert session.total == 1
    assert are_equal(weights_before, weights(model))


def test_a_batch_in_several_pieces_is_one_step() -> None:
    session = Recorded(PLAN)
    engine = opacus.SessionEngine(session.handle)
    model, optimizer, loader = engine.make_private(**parts(), max_grad_norm=1.0)
    steps = 0
    with BatchMemoryManager(data_loader=loader, max_physical_batch_size=1, optimizer=optimizer) as pieces:
        number_of_pieces = 0
        for features, classes in pieces:
            number_of_pieces += 1
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(features), classes).backward()
            optimizer.step()
            steps += not optimizer._is_last_step_skipped
            if steps == 5:
                break
    assert session.total == 5 < number_of_pieces


@pytest.mark.parametrize("change", [{"noise_multiplier": 0.9}, {"rows": 20}])
def test_less_noise_and_larger_batches_than_planned_are_refused(change: dict[str, Any]) -> None:
    session = Recorded(PLAN)
    engine = opacus.SessionEngine(session.handle)
    rows = change.pop("rows", 40)
    arguments = parts(rows)
    if rows != 40:
        arguments["data_loader"] = torch.utils.data.DataLoader(arguments["data_loader"].dataset, batch_size=4)
    model, optimizer, loader = engine.make_private(**arguments, max_grad_norm=1.0, **change)
    weights_before = weights(model)
    with pytest.raises(NotCovered):
        step(model, optimizer, loader)
    assert are_equal(weights_before, weights(model))
    assert session.total == 0


@pytest.mark.parametrize(
    "option",
    [
        {"poisson_sampling": False},
        {"clipping": "adaptive"},
        {"clipping": "per_layer"},
        {"grad_sample_mode": "ghost"},
        {"noise_generator": object()},
    ],
)
def test_options_that_make_a_step_another_event_are_refused(option: dict[str, Any]) -> None:
    engine = opacus.SessionEngine(Recorded(PLAN).handle)
    with pytest.raises(UnsupportedMechanism):
        engine.make_private(**parts(), max_grad_norm=1.0, **option)
    with pytest.raises(UnsupportedMechanism):
        engine.make_private_with_epsilon(**parts(), max_grad_norm=1.0)


@pytest.mark.parametrize("batches", [1, 2, 10, 49, 93, 99, 1000])
def test_the_planned_sampling_probability_is_at_least_that_of_opacus(batches: int) -> None:
    """Its sampler takes the numbers k / 2^24 that are below the rate in single precision."""
    from opacus.data_loader import DPDataLoader

    data = torch.utils.data.TensorDataset(torch.zeros(batches, 1))
    loader = DPDataLoader.from_data_loader(torch.utils.data.DataLoader(data, batch_size=1))
    planned = opacus.sampling_probability(range(batches))
    stated = 1 / len(loader)
    below = np.ceil(float(np.float32(loader.sample_rate)) * 2**24) / 2**24
    assert planned >= max(min(below, 1.0), min(stated, 1.0))
    assert planned <= max(stated, loader.sample_rate) + 2**-23


def test_a_data_loader_without_a_batch_is_refused() -> None:
    empty: list[Any] = []
    dropped = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.ones(3)), batch_size=4, drop_last=True)
    for loader in (empty, dropped):
        with pytest.raises(ValueError, match="data_loader has no batch"):
            opacus.sampling_probability(loader)


@pytest.mark.parametrize("number", [0.0, -1.0, np.inf, np.nan])
def test_wrong_numbers_of_a_step_are_not_recorded(number: float) -> None:
    session = Recorded(PLAN)
    steps = opacus.SessionAccountant(session.handle)
    with pytest.raises(UnsupportedMechanism):
        steps.step(noise_multiplier=number, sample_rate=RATE)
    with pytest.raises((UnsupportedMechanism, NotCovered, ValueError, OverflowError)):
        steps.step(noise_multiplier=1.0, sample_rate=number)
    assert session.total == len(steps) == 0


def test_epsilon_is_that_of_the_whole_plan() -> None:
    accountant = opacus.SessionAccountant(Recorded(PLAN, epsilon=0.7).handle)
    assert accountant.get_epsilon(delta=1e-6) == 0.7
    with pytest.raises(ValueError, match="delta"):
        accountant.get_epsilon(delta=1e-7)


@pytest.mark.slow
def test_a_run_on_a_real_server_is_reserved_recorded_and_refunded(client: Client, register: Register) -> None:
    dataset = register()
    arguments = parts()
    engine = opacus.reserve(client, dataset, data_loader=arguments["data_loader"], epochs=2, privacy={"epsilon": 1.0})
    reserved = client.datasets.budget(dataset).share
    assert reserved > 0
    with engine.session:
        model, optimizer, loader = engine.make_private(**arguments, max_grad_norm=1.0)
        for _ in range(3):
            step(model, optimizer, loader)
    final = engine.session.refresh()
    assert (final.state, final.plan[0].recorded, final.plan[0].count) == ("closed", 3, 2 * BATCHES)
    assert 0 < client.datasets.budget(dataset).share < reserved
    with pytest.raises(ProblemError) as refused:
        step(model, optimizer, loader)
    assert refused.value.code == "session_ended"


@pytest.mark.slow
def test_a_plan_with_chosen_noise_that_does_not_fit_is_refused(client: Client, register: Register) -> None:
    options: dict[str, Any] = {"data_loader": parts()["data_loader"], "noise_multiplier": 0.2}
    with pytest.raises(ProblemError) as refused:
        opacus.reserve(client, register(), **options)
    assert refused.value.code == "budget_exhausted"
    with pytest.raises(ValueError, match="either"):
        opacus.reserve(client, register(), data_loader=parts()["data_loader"])
