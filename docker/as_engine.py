"""Run and check an image's root folder as a container engine does with --read-only --tmpfs /tmp --volume /data.

Usage, as root: as_engine.py IMAGE.json ROOT VOLUME. IMAGE.json is the output of `buildah inspect --type image`, ROOT
the folder where the image is mounted, and VOLUME an empty folder.
"""

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

NAMESPACES = ["unshare", "--mount", "--pid", "--net", "--ipc", "--uts", "--fork", "--kill-child"]
MOUNTS = """
set -eu
root=$1 volume=$2; shift 2
mount --make-rprivate /
mount --bind "$root" "$root"
mount -o remount,bind,ro "$root"
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"
mount -t tmpfs -o mode=1777 tmpfs "$root/dev/shm"
mount -t tmpfs -o mode=1777 tmpfs "$root/tmp"
mount --bind "$volume" "$root/data"
ip link set lo up
exec "$@"
"""
STARTUP_SECONDS = 120
LOADED = """
import sys, app.worker.task
from solvers.kernels import ENTRIES
assert ENTRIES and not {"numba", "llvmlite"} & set(sys.modules)
print(f"   {len(ENTRIES)} loops, linked, and no compiler", flush=True)
"""


def main() -> None:
    image, root, volume = sys.argv[1:]
    config = json.loads(Path(image).read_text())["Docker"]["config"]
    user, group = (int(part) for part in config["User"].split(":"))
    os.chown(volume, user, group)
    inside = [sys.executable, __file__, "--inside", json.dumps(config), root]
    subprocess.run([*NAMESPACES, "sh", "-c", MOUNTS, "sh", root, volume, *inside], check=True)


def inside(config: dict[str, Any], root: str) -> None:
    """Enter the image as its user, inside the namespaces, and run it as an engine does."""
    user, group = (int(part) for part in config["User"].split(":"))
    os.chroot(root)
    os.chdir(config["WorkingDir"])
    os.setgroups([])
    os.setgid(group)
    os.setuid(user)
    environment = dict(entry.split("=", 1) for entry in config["Env"])
    environment["HOME"] = config["WorkingDir"]
    os.environ.clear()
    os.environ.update(environment)  # also the PATH in which the commands below are found

    subprocess.run(["python", "-c", LOADED], check=True)
    server = subprocess.Popen([*config["Entrypoint"], *(config.get("Cmd") or [])])
    kind, *probe = config["Healthcheck"]["Test"]
    assert kind == "CMD", kind
    started = time.monotonic()
    while subprocess.run(probe, stderr=subprocess.DEVNULL, check=False).returncode:
        assert server.poll() is None, "the server ended before it was healthy"
        assert time.monotonic() - started < STARTUP_SECONDS, "the server did not become healthy"
        time.sleep(0.5)
    print(f"   healthy after {time.monotonic() - started:.1f} s, as user {os.getuid()}:{os.getgid()}", flush=True)
    for path in ("/", "/opt/venv", "/usr/bin", "/epoch"):
        assert not os.access(path, os.W_OK), f"{path} is writable"
    assert {os.stat(path).st_uid for path in ("/epoch", "/scratch")} == {user}, "another user owns the volumes"
    assert list(Path("/data").iterdir()), "no state in the volume"
    server.terminate()
    # The server waits for workers that are just starting.
    assert server.wait(timeout=3 * STARTUP_SECONDS) in (0, -15, 143), f"the server ended with {server.returncode}"
    used = os.times()
    print(
        f"   {used.children_user + used.children_system:.1f} CPU seconds from start to stop, probes and all", flush=True
    )
    print("   root file system read-only, state in the volume, stopped on SIGTERM", flush=True)
    subprocess.run(["purse", "demo"], check=True)


if __name__ == "__main__":
    if sys.argv[1] == "--inside":
        inside(json.loads(sys.argv[2]), sys.argv[3])
    else:
        main()
