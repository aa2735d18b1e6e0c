"""Grants and allotments under every kill: what is granted, allotted, charged and taken back, by a model."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, initialize, invariant, multiple, rule

from accounting.filter import Cost, Filter
from accounting.records.allotments import Account, Allotment, Part, reservations_fit, standing
from accounting.records.ledger import LedgerState
from app.datasets import allotments, grants
from app.http.errors import ApiError
from app.http.lists import Paging
from app.identity.store import Principal
from app.jobs import service
from app.ledger import allotments as stored
from app.ledger import store as ledger
from app.quotes.pricing import Priced
from purse.wire.allotments import AllotmentRequest
from tests.support.postgres import Cluster
from tests.support.steps import Killed, Machine, killed_at, machine_settings, run_on_postgresql
from tests.support.world import STEWARD, World

NAMES = st.sampled_from(["ada", "bob", "eve"])
OF = st.sampled_from([0, 1])
EPSILONS = (0.2, 0.6, 1.1)
KILLS = st.sampled_from([0, 1, 2, 3, 5, 8, None, None, None, None])


class Sharing(Machine):
    """Three analysts on two datasets of a family. A step that is killed has happened whole, or not at all."""

    datasets: tuple[str, str]  # the first opened the ledger of both
    priced: dict[tuple[str, float], Priced]
    jobs: Bundle[Any] = Bundle("jobs")

    def __init__(self) -> None:
        super().__init__()
        self.granted = {("ada", dataset) for dataset in self.datasets}
        self.allotted: dict[str, Allotment] = {}
        self.live: dict[str, dict[str, Cost]] = {"ada": {}, "bob": {}, "eve": {}}
        self.queued: set[str] = set()

    def teardown(self) -> None:
        self.world.check()
        super().teardown()

    @initialize()
    def first(self) -> None:
        self.person = {"ada": self.world.analyst, "bob": self.world.join("bob"), "eve": self.world.join("eve")}

    def outcome(self, kill: int | None, step: Any, *arguments: Any) -> Any:
        """Return the step's result or error code, or None if the step was killed and changed nothing."""
        state_before = self.world.dump(), self.shared()
        try:
            if kill is None:
                return step(*arguments)
            with killed_at(self.world.database, kill):
                return step(*arguments)
        except ApiError as refused:
            assert (self.world.dump(), self.shared()) == state_before
            return refused.code
        except Killed:
            assert (self.world.dump(), self.shared()) == state_before
            return None

    def shared(self) -> tuple[object, ...]:
        with self.world.database.read() as connection:
            granted = [
                grants.page(self.world.database, dataset, Paging(order="asc")).items for dataset in self.datasets
            ]
            return granted, stored.rows(connection, self.datasets[0])

    @rule(person=NAMES, of=OF, kill=KILLS)
    def grant(self, person: str, of: int, kill: int | None) -> None:
        dataset = self.datasets[of]
        result = self.outcome(kill, grants.give, self.world.database, STEWARD, dataset, person)
        if result is not None:
            self.granted.add((person, dataset))

    @rule(person=NAMES, of=OF, kill=KILLS)
    def revoke(self, person: str, of: int, kill: int | None) -> None:
        dataset = self.datasets[of]
        result = self.outcome_without_answer(kill, grants.revoke, self.world.database, dataset, person)
        assert result in ("killed", "done" if (person, dataset) in self.granted else "not_found")
        if result == "done":
            self.granted.remove((person, dataset))

    @rule(person=NAMES, of=OF, share=st.sampled_from([0.03, 0.3, 0.6]), reserved=st.booleans(), kill=KILLS)
    def allot(self, person: str, of: int, share: float, reserved: bool, kill: int | None) -> None:
        """An allotment on any dataset of the family is a part of their common budget."""
        then = self.allotted | {person: Allotment(Part.of(self.filter, share), reserved)}
        fits = not any(allotment.is_reserved for allotment in then.values()) or reservations_fit(
            self.state, self.accounts(), then
        )
        request = AllotmentRequest(share=share, mode="reserved" if reserved else "shared")
        result = self.outcome(kill, allotments.put, self.world.database, STEWARD, self.datasets[of], person, request)
        if result is not None:
            assert (result == "overallotted") == (not fits)
            self.allotted = then if fits else self.allotted

    @rule(person=NAMES, of=OF, kill=KILLS)
    def take_back(self, person: str, of: int, kill: int | None) -> None:
        result = self.outcome_without_answer(
            kill, allotments.delete, self.world.database, STEWARD, self.datasets[of], person
        )
        assert result in ("killed", "done" if person in self.allotted else "not_found")
        if result == "done":
            self.allotted.pop(person)

    def outcome_without_answer(self, kill: int | None, step: Any, *arguments: Any) -> str:
        """Return the outcome of a step that has no answer."""
        result = self.outcome(kill, lambda: (step(*arguments), "done")[1])
        return result or "killed"

    @rule(target=jobs, person=NAMES, of=OF, epsilon=st.sampled_from(EPSILONS), kill=KILLS)
    def submit(self, person: str, of: int, epsilon: float, kill: int | None) -> Any:
        dataset = self.datasets[of]
        priced = self.priced[dataset, epsilon]
        cost = priced.cost
        assert cost is not None
        stands = standing(self.state, self.accounts(), self.allotted, person)
        admitted = priced.outlook(stands).fits
        expected = (
            "not_found" if (person, dataset) not in self.granted else "queued" if admitted else "budget_exhausted"
        )
        result = self.outcome(
            kill, service.submit, self.world.database, self.owner(person), f"key {self.tries()}", priced
        )
        if result is None:
            return multiple()
        assert (result if isinstance(result, str) else result.state) == expected
        if expected != "queued":
            return multiple()
        self.live[person][result.id] = cost
        self.queued.add(result.id)
        return person, result.id

    def owner(self, person: str) -> Principal:
        return self.person[person]

    def tries(self) -> int:
        self.count = getattr(self, "count", 0) + 1
        return self.count

    @rule()
    def start(self) -> None:
        claim = self.world.claim()
        assert (claim is not None) == bool(self.queued)
        if claim is not None:
            self.queued.remove(claim.id)
            assert self.world.end(claim)

    @rule(job=jobs, kill=KILLS)
    def cancel(self, job: tuple[str, str], kill: int | None) -> None:
        """An analyst may cancel their own job even after losing the grant."""
        person, name = job
        result = self.outcome(kill, service.cancel, self.world.database, self.owner(person), name)
        if result is not None:
            assert (result == "already_finished") == (name not in self.queued)
            if name in self.queued:
                self.queued.remove(name)
                del self.live[person][name]

    @property
    def state(self) -> LedgerState:
        with self.world.database.read() as connection:
            stored_state = ledger.load_state(connection, self.datasets[0])
        assert stored_state is not None
        return stored_state

    @property
    def filter(self) -> Filter:
        return self.state.filter

    def accounts(self) -> dict[str, Account]:
        accounts = {}
        for person, live in self.live.items():
            spent = tuple(map(sum, zip(self.filter.zero_cost, *live.values(), strict=True)))
            accounts[person] = Account(spent, len(live))
        return accounts

    @invariant()
    def all_is_as_the_model_has_it(self) -> None:
        names = {principal.id: person for person, principal in self.person.items()}
        with self.world.database.read() as connection:
            spent = stored.accounts(connection, self.datasets[0])
            rows = stored.rows(connection, self.datasets[0])
        assert {names[person]: row.of(self.filter) for person, row in rows.items()} == self.allotted
        accounts = self.accounts()
        assert {person: accounts[person] for person in accounts if accounts[person].charges} == {
            names[person]: account for person, account in spent.items() if account.charges
        }

    @invariant()
    def what_is_reserved_and_spent_fits(self) -> None:
        if any(allotment.is_reserved for allotment in self.allotted.values()):
            assert reservations_fit(self.state, self.accounts(), self.allotted)


@pytest.fixture(scope="module", autouse=True)
def _template(tmp_path_factory: pytest.TempPathFactory) -> None:
    prepare(Sharing, tmp_path_factory.mktemp("template") / "home")


def prepare(machine: type[Sharing], home: Path) -> None:
    """Write the home that each run of the machine copies: one family."""
    world = World.at(home)
    declared: dict[str, Any] = {"budget": {"epsilon": 3.0, "delta": 1e-6, "filter": "gdp_rdp"}, "family": "survey"}
    machine.datasets = (world.dataset(**declared), world.dataset(**declared))
    questions = [(dataset, epsilon) for dataset in machine.datasets for epsilon in EPSILONS]
    machine.priced = {(of, epsilon): world.priced(of, privacy={"epsilon": epsilon}) for of, epsilon in questions}
    world.database.close()
    machine.template = home


TestSharing = pytest.mark.slow(Sharing.TestCase)
TestSharing.settings = machine_settings(examples=18, steps=25)


@pytest.mark.slow
def test_the_books_hold_in_any_order_of_steps_on_postgresql(tmp_path: Path, on_postgres: Cluster) -> None:
    run_on_postgresql(Sharing, prepare, tmp_path / "home", on_postgres)
