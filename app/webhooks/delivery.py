"""Delivery of messages to public addresses only. A host is looked up once, and the checked address is called.

A user's address must not make this server send requests into its own network (server-side request forgery), whose
services may trust it.
"""

import asyncio
import socket
import ssl
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cache
from ipaddress import IPv6Address, IPv6Network, ip_address
from urllib.parse import SplitResult, urlsplit

import httpx

TIMEOUT_SECONDS = 10.0  # for the lookup, the connection, the message and the first line of the answer together
_GLOBAL = IPv6Network("2000::/3")  # all addresses of version 6 that are assigned


class AddressRefused(Exception):
    """A message may not be sent to this address."""


@dataclass(frozen=True, slots=True)
class Destination:
    """The destination of a message: the checked address of a named host."""

    parts: SplitResult
    address: str

    @property
    def url(self) -> str:
        """The URL with the address instead of the name, so that the name is not looked up again."""
        host = f"[{self.address}]" if ":" in self.address else self.address
        return self.parts._replace(netloc=f"{host}:{port_of(self.parts)}").geturl()


def parsed_url(url: str, allowed_hosts: Collection[str]) -> SplitResult:
    """Return the parts of a URL. Raise `AddressRefused` if its form is not allowed.

    Parameters
    ----------
    allowed_hosts : hosts that the operator allows at private addresses and without TLS
    """
    try:
        parts = urlsplit(url)
        is_whole = bool(parts.hostname) and port_of(parts) > 0
    except ValueError:
        raise AddressRefused("must be a URL, such as https://example.org/hook") from None
    if not is_whole or "@" in parts.netloc or parts.fragment or "\\" in url:
        raise AddressRefused("must be a URL with a host and without user, password and fragment")
    if parts.scheme != "https" and parts.hostname not in allowed_hosts:
        raise AddressRefused(
            "must be an https URL: the operator does not allow http for this host (PURSE_WEBHOOK_HOSTS)"
        )
    return parts


def port_of(parts: SplitResult) -> int:
    """Return the port of a URL, by default that of its scheme."""
    return parts.port if parts.port is not None else {"https": 443, "http": 80}[parts.scheme]


def is_public(address: str) -> bool:
    """Return whether an address is on the public internet: not of this machine, of a private network, or multicast.

    Addresses that embed another address are not.
    """
    parsed = ip_address(address.partition("%")[0])
    if isinstance(parsed, IPv6Address) and (parsed not in _GLOBAL or parsed.sixtofour or parsed.teredo):
        return False
    return parsed.is_global and not parsed.is_multicast


async def resolved(url: str, allowed_hosts: Collection[str]) -> Destination:
    """Look up the host; raise `AddressRefused` if one of its addresses is not public, `OSError` if it has none."""
    parts = parsed_url(url, allowed_hosts)
    loop = asyncio.get_running_loop()
    entries = await loop.getaddrinfo(parts.hostname, port_of(parts), type=socket.SOCK_STREAM)
    addresses = [str(entry[4][0]) for entry in entries]
    if parts.hostname not in allowed_hosts and not all(map(is_public, addresses)):
        raise AddressRefused("has a host whose address is not public")
    return Destination(parts, addresses[0])


@cache
def _trusted() -> ssl.SSLContext:
    """Return the certificates of the public authorities; they are read once, which blocks the event loop."""
    return httpx.create_ssl_context(trust_env=False)


async def post(url: str, allowed_hosts: Collection[str], body: bytes, headers: Mapping[str, str]) -> int:
    """Send a message; return the status of the answer, of which nothing else is read. No redirect, no proxy.

    Raises
    ------
    AddressRefused, OSError, httpx.HTTPError
        if the message could not be sent, or no answer arrived in time.
    """
    async with asyncio.timeout(TIMEOUT_SECONDS):
        destination = await resolved(url, allowed_hosts)
        own = {"Host": destination.parts.netloc, "Accept-Encoding": "identity", "User-Agent": "privy-purse"}
        client = httpx.AsyncClient(timeout=TIMEOUT_SECONDS, follow_redirects=False, trust_env=False, verify=_trusted())
        named_host = {"sni_hostname": destination.parts.hostname}
        async with (
            client,
            client.stream(
                "POST", destination.url, content=body, headers={**headers, **own}, extensions=named_host
            ) as answer,
        ):
            return answer.status_code
