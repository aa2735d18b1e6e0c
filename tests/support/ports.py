"""A port for a server that is started later."""

import socket
import sys


def reserve_port() -> tuple[int, socket.socket]:
    """Return a free port of 127.0.0.1, and the socket that reserves it for as long as that is referenced.

    Linux gives a port that is bound to no other process, and yet lets a server listen on it if both set SO_REUSEADDR.
    Elsewhere the port is only free at this moment.
    """
    found = socket.socket()
    found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    found.bind(("127.0.0.1", 0))
    port = int(found.getsockname()[1])
    if sys.platform != "linux":
        found.close()
    return port, found
