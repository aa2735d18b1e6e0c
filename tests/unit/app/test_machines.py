"""The engine on machines of its own: certificates, folders, slots that servers share, workers that leave in order."""

import asyncio
import ssl
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from distributed.core import Status
from hypothesis import given
from hypothesis import strategies as st

from app.cli import machines
from app.cli.output import Refusal
from app.worker import joining, task
from app.worker.certificates import issue
from app.worker.engine import HANDED_BACK, RAISED, Folders
from app.worker.orders import Slots, hold
from tests.support.cli import purse


class TestCertificates:
    """Mutual TLS as Dask asks for it: signed by this authority, whatever the name."""

    @staticmethod
    def _meet(first_folder: Path, second_folder: Path) -> None:
        """Do a TLS handshake in memory; raise ssl.SSLError if one side does not trust the other."""
        sides = []
        to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
        for folder, name, purpose in (
            (first_folder, "server", ssl.Purpose.CLIENT_AUTH),
            (second_folder, "w-1", ssl.Purpose.SERVER_AUTH),
        ):
            context = ssl.create_default_context(purpose, cafile=folder / "ca.pem")
            context.verify_flags |= ssl.VERIFY_X509_STRICT
            context.check_hostname, context.verify_mode = False, ssl.CERT_REQUIRED
            context.load_cert_chain(folder / f"{name}.pem", folder / f"{name}-key.pem")
            is_server = purpose is ssl.Purpose.CLIENT_AUTH
            incoming, outgoing = (to_server, to_client) if is_server else (to_client, to_server)
            sides.append(context.wrap_bio(incoming, outgoing, server_side=is_server))
        for _ in range(8):
            for side in sides:
                try:
                    side.do_handshake()
                except ssl.SSLWantReadError:
                    continue
        for side in sides:
            assert side.getpeercert()

    def test_those_of_one_authority_meet_and_no_others(self, tmp_path: Path) -> None:
        for folder in (tmp_path / "ours", tmp_path / "others"):
            for name in ("server", "w-1"):
                certificate, key = issue(folder, name, 30)
                assert (certificate.stat().st_mode & 0o777, key.stat().st_mode & 0o777) == (0o600, 0o600)
        self._meet(tmp_path / "ours", tmp_path / "ours")
        with pytest.raises(ssl.SSLError):
            self._meet(tmp_path / "ours", tmp_path / "others")

    @pytest.mark.parametrize("damaged", ["ca.pem", "one.pem", "one-key.pem"])
    def test_a_damaged_file_is_refused_with_a_sentence(
        self, tmp_path: Path, damaged: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(tmp_path)  # a worker makes its scratch folder there
        issue(tmp_path, "one", 1)
        (tmp_path / damaged).write_text("")
        files = zip(("--ca", "--cert", "--key"), ("ca.pem", "one.pem", "one-key.pem"), strict=True)
        named = [word for option, file in files for word in (option, str(tmp_path / file))]
        for command in (
            ("server", "scheduler"),
            ("worker", "--scheduler", "tls://127.0.0.1:1", "--data", str(tmp_path)),
        ):
            code, _, err = purse(capsys, *command, *named)
            assert (code, err.count("\n")) == (1, 1)
            assert damaged in err

    def test_an_existing_certificate_is_not_replaced(self, tmp_path: Path) -> None:
        certificate = issue(tmp_path, "w", 30)[0].read_bytes()
        with pytest.raises(FileExistsError):
            issue(tmp_path, "w", 30)
        assert (tmp_path / "w.pem").read_bytes() == certificate

    def test_a_certificate_missing_after_a_kill_is_written(self, tmp_path: Path) -> None:
        """Review: a key without its certificate was refused for ever, with a wrong message; the authority's key too."""
        for folder in (tmp_path / "ours", tmp_path / "others"):
            issue(folder, "server", 30)
        issue(tmp_path / "ours", "w-1", 30)
        for stem in ("ca", "w-1"):
            (tmp_path / "ours" / f"{stem}.pem").unlink()
        issue(tmp_path / "ours", "w-1", 30)
        self._meet(tmp_path / "ours", tmp_path / "ours")

    def test_an_authority_without_its_key_is_not_replaced(self, tmp_path: Path) -> None:
        authority = issue(tmp_path, "server", 30)[0].with_name("ca.pem").read_bytes()
        (tmp_path / "ca-key.pem").unlink()
        with pytest.raises(Refusal, match=r"ca-key\.pem"):
            machines.certificate("w-1", tmp_path, 30)
        assert (tmp_path / "ca.pem").read_bytes() == authority

    @pytest.mark.parametrize("name", ["ca", "ca-key", "w-1-key", "a" * 65, "../w", "", "a..b"])
    def test_a_name_is_that_of_no_other_file(self, tmp_path: Path, name: str) -> None:
        """Review: a worker called `w-key` has its certificate where `w` has its key."""
        with pytest.raises(Refusal):
            machines.certificate(name, tmp_path / "made", 30)
        assert not (tmp_path / "made").exists()


def test_a_worker_clears_away_its_own_and_nothing_else(tmp_path: Path) -> None:
    """Review: told to work in a folder that others have, it deleted whatever there had a hyphen in its name."""
    for name in ("slot-0", "job_1-2", "dask-scratch-space", "somebody-elses"):
        (tmp_path / name).mkdir()
    joining.clear(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["somebody-elses"]


def test_the_next_process_deletes_rows_that_a_killed_process_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fault test: a worker that ran out of memory left rows on its disk until its machine joined again."""
    monkeypatch.setattr(task, "quiet", lambda: None)
    abandoned, neighbor = tmp_path / "slot-0" / "job_1-1", tmp_path / "slot-1" / "job_2-1"
    for folder in (abandoned, neighbor):
        folder.mkdir(parents=True)
    task.prepare(Folders(scratch=tmp_path / "slot-0"))
    task.prepare(None)  # later tests of this process have no folders of a worker
    assert not abandoned.exists()
    assert neighbor.exists(), "another process uses this folder"


def test_a_machine_has_the_folders_of_the_same_names(tmp_path: Path) -> None:
    named = ("/srv/purse/datasets/ds_1", "/srv/purse/scratch/job_1-2")
    assert Folders().of(*named) == tuple(map(Path, named))
    assert Folders(tmp_path / "d", tmp_path / "s").of(*named) == (tmp_path / "d" / "ds_1", tmp_path / "s" / "job_1-2")
    assert Folders(tmp_path).of("/x/../../etc/ds_1", named[1])[0] == tmp_path / "ds_1"


STEPS = st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from(["take", "end", "die", "come", "go"])), max_size=60)


@given(steps=STEPS)
def test_servers_of_one_scheduler_never_hold_more_slots_than_there_are(steps: list[tuple[str, str]]) -> None:
    """This holds when clients die and workers leave; a free slot is given to any client that requests one."""
    slots, scheduler = Slots(), SimpleNamespace(clients=dict.fromkeys("abc"), running=[SimpleNamespace(nthreads=1)])
    scheduler.plugins = {Slots.name: slots}
    slots_held = dict.fromkeys("abc", 0)
    for client, step in steps:
        threads = len(scheduler.running)
        if step == "take":
            scheduler.clients.setdefault(client)
            is_free = sum(slots_held.values()) < threads
            assert hold(client, slots_held[client], True, scheduler) is is_free  # type: ignore[arg-type]
            slots_held[client] += is_free
        elif step == "end" and slots_held[client]:
            slots_held[client] -= 1
        elif step == "die":
            scheduler.clients.pop(client, None)
            slots.remove_client(scheduler, client)  # type: ignore[arg-type]
            slots_held[client] = 0
        elif step == "come":
            scheduler.running.append(SimpleNamespace(nthreads=1))
        elif step == "go" and threads:
            scheduler.running.pop()
        if client in scheduler.clients:  # as a dispatcher reports at the end of each step
            hold(client, slots_held[client], False, scheduler)  # type: ignore[arg-type]


class FakeWorker:
    """A Dask worker as `task.leave` sees it."""

    def __init__(self) -> None:
        self.status = Status.running
        self.state = SimpleNamespace(executing_count=1, long_running=set())
        self.data: dict[str, Any] = {}
        self.close_reasons: list[str] = []

    async def close_gracefully(self, reason: str) -> None:
        self.close_reasons.append(reason)


@pytest.mark.parametrize("ends_by_itself", [True, False])
def test_a_worker_that_stops_accepts_no_jobs_and_hands_its_attempt_back(
    ends_by_itself: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its attempt continues until the time limit; then it ends at its next answer and returns HANDED_BACK."""
    monkeypatch.setattr(task, "POLL_INTERVAL_SECONDS", 0.001)
    monkeypatch.setattr(task, "leaving", type(task.leaving)())

    def three_answers(_payload: str, on_answer: Any, _spread: Any) -> str:
        for answer in range(3):
            on_answer(answer)
        return "an output"

    monkeypatch.setattr(task, "run", three_answers)
    worker = FakeWorker()

    async def story() -> str:
        leaving = asyncio.ensure_future(task.leave(worker, 0.02 if not ends_by_itself else 60.0))  # type: ignore[arg-type]
        await asyncio.sleep(0)
        assert worker.status == Status.paused
        while not ends_by_itself and not task.leaving.is_set():
            await asyncio.sleep(0.001)
        output = await asyncio.to_thread(task.attempt, "{}", "job_1-1")
        worker.state.executing_count, worker.data = 0, {"job_1-1": output}
        await asyncio.sleep(0.005)
        assert worker.close_reasons == [], "its output was not fetched"
        worker.data.clear()
        await leaving
        return output

    assert asyncio.run(story()) == ("an output" if ends_by_itself else HANDED_BACK)
    assert worker.close_reasons == ["told to stop"]


def test_a_cancelled_attempt_is_not_handed_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task, "leaving", type(task.leaving)())
    monkeypatch.setattr(task, "run", lambda _payload, on_answer, _spread: on_answer(1))
    task.leaving.set()
    task.stop("job_1-1")
    with ThreadPoolExecutor(1) as thread:
        assert list(thread.map(task.attempt, ["{}", "{}"], ["job_1-1", "job_1-2"])) == [RAISED, HANDED_BACK]
