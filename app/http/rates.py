"""How many requests one caller, one address and all together may make: refused before anything is looked up for them.

A bucket of `rate` requests a second that holds WINDOW seconds of them is one number (GCRA): the time `due` at which it
is full again. A request at `now` is admitted if max(due, now) + 1/rate - now <= WINDOW, and moves `due` there. Buckets
are this server's memory: each server of several has its own, and a restart fills them.
Reference: ITU-T I.371; draft-ietf-httpapi-ratelimit-headers (RateLimit-Policy and RateLimit).
"""

import hashlib
import math
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from ipaddress import IPv6Address, ip_address
from typing import Generic, TypeVar

from app.http.asgi import ASGIApp, Message, Receive, Scope, Send
from app.http.errors import ApiError
from app.http.handlers import respond
from app.http.places import Places
from app.http.routing import own_path
from app.http.turns import Turns
from app.http.work import SLOTS, SLOTS_EACH, Account, charged_to
from app.settings import Settings

WINDOW = 10.0  # seconds of its rate that a bucket holds
MOST_REMEMBERED = 10_000  # callers, addresses, tokens; whoever has not come for longest is forgotten
CALLER = "purse.caller"  # where a route's principal is said in the scope, by its id
UNLIMITED = ("/health/live", "/health/ready")  # a probe that is refused would stop a service that is only busy
_STRANGERS = 0.5  # of the rate of all, for those without a valid token together

T = TypeVar("T")


class Recent(Generic[T]):
    """A table of the names used last."""

    def __init__(self, most: int = MOST_REMEMBERED) -> None:
        self._most, self._found = most, OrderedDict[str, T]()

    def get(self, name: str) -> T | None:
        """What is known of a name."""
        return self._found.get(name)

    def put(self, name: str, value: T) -> None:
        """From now on this is known of it; of the name that was put longest ago, nothing, if there are too many."""
        self._found[name] = value
        self._found.move_to_end(name)
        if len(self._found) > self._most:
            self._found.popitem(last=False)

    def drop(self, name: str) -> None:
        """Nothing is known of it any more."""
        self._found.pop(name, None)


@dataclass(frozen=True, slots=True)
class Taken:
    """What asking a bucket has come to: seconds to wait, 0 if admitted; how many are left; seconds until it is full."""

    wait: float
    left: int
    full: float


class Buckets:
    """A bucket for each name, `rate` requests a second."""

    def __init__(self, rate: float) -> None:
        self._step = 1.0 / rate
        self.quota = int(rate * WINDOW)
        self._due = Recent[float]()

    def take(self, who: str, now: float) -> Taken:
        """One request of `who`, if there is room for it."""
        due_time = max(self._due.get(who) or now, now)
        wait = due_time + self._step - now - WINDOW
        if wait > 1e-9 * WINDOW:
            return Taken(wait, 0, due_time - now)
        return self.charge(who, 1.0, now)

    def charge(self, who: str, requests: float, now: float) -> Taken:
        """Take so many requests of `who`, whether there is room for them or not: what they have cost is known late."""
        due_time = max(self._due.get(who) or now, now) + requests * self._step
        self._due.put(who, due_time)
        return Taken(0.0, max(int((now + WINDOW - due_time) / self._step + 1e-6), 0), due_time - now)


class Limited:
    """ASGI middleware: known callers by their identity, all others by their address.

    A token is known once a route has let it in, until it is refused; a request that shows another counts for its
    address. So guessing tokens is slow, and costs no look into the database beyond that.

    Parameters
    ----------
    app : what it surrounds
    settings : whose rates hold
    clock : seconds that never go back
    """

    def __init__(self, app: ASGIApp, settings: Settings, clock: Callable[[], float] = time.monotonic) -> None:
        self._app, self._clock = app, clock
        self._callers, self._strangers = Buckets(settings.caller_rate), Buckets(settings.stranger_rate)
        self._all, self._all_strangers = Buckets(settings.total_rate), Buckets(settings.total_rate * _STRANGERS)
        self._known = Recent[str]()
        self._turns = Turns(SLOTS, SLOTS_EACH)
        self._places = Places("requests", settings.max_requests, settings.max_connections)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] != "http" or own_path(scope) in UNLIMITED:
            await self._app(scope, receive, send)
            return
        digest = _shown(scope)
        caller = self._known.get(digest)
        key, kind, own = (caller, "caller", self._callers) if caller else (address(scope), "address", self._strangers)
        grant = own.take(key, self._clock())

        def charge(requests: float) -> None:
            """Charge the identity once the token is known to be valid: others at its address would see the cost."""
            identity = scope.get(CALLER) or self._known.get(digest)
            bucket, payer = (self._callers, identity) if identity else (own, key)
            bucket.charge(payer, requests, self._clock())

        account = Account(key, self._turns, charge)

        def fields() -> list[tuple[bytes, bytes]]:
            return _fields(kind, own.quota, grant if grant.wait else own.charge(key, 0.0, self._clock()))

        sending = self._telling(send, scope, digest, account, fields)
        try:
            self._refuse(grant, is_stranger=caller is None)
            self._places.take(key)
        except ApiError as refusal:
            await respond(refusal)(scope, receive, sending)
            return
        try:
            with charged_to(account):
                await self._app(scope, receive, sending)
        finally:
            self._places.leave(key)

    def _refuse(self, taken: Taken, is_stranger: bool) -> None:
        """`ApiError` too_many_requests if the own bucket is empty, overloaded if that of all, or of strangers, is."""
        if taken.wait:
            raise ApiError("too_many_requests", headers=_again(taken.wait))
        for bucket in (self._all, self._all_strangers) if is_stranger else (self._all,):
            if wait := bucket.take("", self._clock()).wait:
                raise ApiError("overloaded", headers=_again(wait))

    def _telling(
        self,
        send: Send,
        scope: Scope,
        shown: str,
        account: Account,
        fields: Callable[[], list[tuple[bytes, bytes]]],
    ) -> Send:
        async def sending(message: Message) -> None:
            if message["type"] == "http.response.body":
                account.add(size=len(message.get("body", b"")))
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], *fields()]
                if message["status"] == 401:
                    self._known.drop(shown)
                elif CALLER in scope:
                    self._known.put(shown, scope[CALLER])
            await send(message)

        return sending


def _fields(kind: str, quota: int, taken: Taken) -> list[tuple[bytes, bytes]]:
    policy, now = f'"{kind}";q={quota};w={WINDOW:.0f}', f'"{kind}";r={taken.left};t={math.ceil(taken.full)}'
    return [(b"ratelimit-policy", policy.encode()), (b"ratelimit", now.encode())]


def _again(wait: float) -> dict[str, str]:
    return {"Retry-After": str(math.ceil(wait))}


def _shown(scope: Scope) -> str:
    """The digest of what stands in Authorization; the secret itself is kept nowhere."""
    shown = next((value for name, value in scope["headers"] if name == b"authorization"), b"")
    return hashlib.sha256(shown).hexdigest()


def address(scope: Scope) -> str:
    """Where a request comes from, as a bucket or a place goes by it."""
    client = scope.get("client")
    return _network(client[0]) if client else ""


@lru_cache(MOST_REMEMBERED)
def _network(host: str) -> str:
    """Who has one address of version 6 has its 2^64 neighbours too."""
    try:
        parsed = ip_address(host)
    except ValueError:
        return host
    return str(parsed) if not isinstance(parsed, IPv6Address) else hex(int(parsed) >> 64)
