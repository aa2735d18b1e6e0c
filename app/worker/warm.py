"""What every worker process needs, loaded once: the process that imports this forks them.

It has one thread and holds neither data nor a setting. It ends with the server, and with its workers, whose end it
tells: told to stop, it waits for that, as they do.
"""

import gc
import os
import signal

for _name in [name for name in os.environ if name.startswith("PURSE_")]:
    del os.environ[_name]
signal.signal(signal.SIGTERM, signal.SIG_IGN)
gc.disable()
import app.worker.task  # noqa: E402, F401

gc.freeze()  # it is looked through in no worker, and stays shared
gc.enable()
