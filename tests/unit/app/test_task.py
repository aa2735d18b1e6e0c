"""What a worker runs: an attempt gives way to a server on the same machine."""

import os
import threading

from app.worker.task import attempt


def test_only_the_thread_of_an_attempt_has_a_lower_priority() -> None:
    own_priority, priorities = os.getpriority(os.PRIO_PROCESS, 0), list[int]()

    def work() -> None:
        attempt("no payload", "job")
        priorities.append(os.getpriority(os.PRIO_PROCESS, 0))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert priorities == [max(own_priority, 10)]
    assert os.getpriority(os.PRIO_PROCESS, 0) == own_priority
