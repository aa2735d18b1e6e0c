"""What a worker runs: an attempt gives way to a server on the same machine."""

import os
import threading

from app.worker.task import attempt


def test_an_attempts_thread_alone_has_a_lower_priority() -> None:
    before, found = os.getpriority(os.PRIO_PROCESS, 0), list[int]()

    def work() -> None:
        attempt("no payload", "job")
        found.append(os.getpriority(os.PRIO_PROCESS, 0))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert found == [max(before, 10)]
    assert os.getpriority(os.PRIO_PROCESS, 0) == before
