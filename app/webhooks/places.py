"""Where a message may go: to a public address, which is looked up once, checked, and is the one that is called.

An address that somebody names must not make this server ask its own network (server-side request forgery): what it
would find there is behind a door that trusts it.
"""

import asyncio
import socket
import ssl
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cache
from ipaddress import IPv6Address, IPv6Network, ip_address
from urllib.parse import SplitResult, urlsplit

_SECONDS = 10.0  # for all of it: the name, the connection, the message, and the first line of the answer
_GLOBAL = IPv6Network("2000::/3")  # all of version 6 that is given to anybody


class Refused(Exception):
    """A message may not go there."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where one message goes: the address that was checked, under the name that was given."""

    parts: SplitResult
    address: str

    @property
    def url(self) -> str:
        """By address: the name is not looked up again."""
        host = f"[{self.address}]" if ":" in self.address else self.address
        return self.parts._replace(netloc=f"{host}:{port_of(self.parts)}").geturl()


def parted(url: str, named: Collection[str]) -> SplitResult:
    """The address in parts; `Refused` if its form says already that nothing may go there.

    Parameters
    ----------
    named : hosts that the operator has named: they may be private, and do without TLS
    """
    try:
        parts = urlsplit(url)
        is_whole = bool(parts.hostname) and port_of(parts) > 0
    except ValueError:
        raise Refused("must be an address") from None
    if not is_whole or "@" in parts.netloc or parts.fragment or "\\" in url:
        raise Refused("must be an address without user, password and fragment")
    if parts.scheme != "https" and parts.hostname not in named:
        raise Refused("must be https: the operator has not named this host in PURSE_WEBHOOK_HOSTS")
    return parts


def port_of(parts: SplitResult) -> int:
    """The port that is named, or its scheme's."""
    return parts.port if parts.port is not None else {"https": 443, "http": 80}[parts.scheme]


def is_public(address: str) -> bool:
    """Whether this is anybody's address in the world: none of this machine's, its network's, or a group's.

    Addresses that carry another one inside are refused, whatever that is.
    """
    found = ip_address(address.partition("%")[0])
    if isinstance(found, IPv6Address) and (found not in _GLOBAL or found.sixtofour or found.teredo):
        return False
    return found.is_global and not found.is_multicast


async def place(url: str, named: Collection[str]) -> Place:
    """Looks the name up; `Refused` if any of its addresses is not a public one, `OSError` if there is none."""
    parts = parted(url, named)
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(parts.hostname, port_of(parts), type=socket.SOCK_STREAM)
    addresses = [str(entry[4][0]) for entry in found]
    if parts.hostname not in named and not all(map(is_public, addresses)):
        raise Refused("is at an address that is not public")
    return Place(parts, addresses[0])


@cache
def _trusted() -> ssl.SSLContext:
    """The certificates of the world's authorities, read once: the event loop stands still meanwhile."""
    import httpx  # late: a server is ready without it

    return httpx.create_ssl_context(trust_env=False)


async def post(url: str, named: Collection[str], body: bytes, headers: Mapping[str, str]) -> int:
    """The status of the answer, of which nothing else is read; no redirect is followed, and no proxy asked.

    Raises
    ------
    Refused, OSError, httpx.HTTPError
        if the message did not go there, or nothing came back in time.
    """
    import httpx  # late: a server is ready without it

    async with asyncio.timeout(_SECONDS):
        to = await place(url, named)
        more = {"Host": to.parts.netloc, "Accept-Encoding": "identity", "User-Agent": "privy-purse"}
        client = httpx.AsyncClient(timeout=_SECONDS, follow_redirects=False, trust_env=False, verify=_trusted())
        named_host = {"sni_hostname": to.parts.hostname}
        async with (
            client,
            client.stream("POST", to.url, content=body, headers={**headers, **more}, extensions=named_host) as answer,
        ):
            return answer.status_code
