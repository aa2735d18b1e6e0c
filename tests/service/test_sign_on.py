"""Sign-on: what the tokens of the organization's provider may do, and what none of them may."""

import asyncio
import hmac
import json
import threading
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest
import sqlalchemy as sa
from joserfc import jws
from joserfc.jwk import ECKey, KeyParameters, OctKey, OKPKey, RSAKey
from joserfc.util import urlsafe_b64encode
from pydantic import ValidationError

from app.identity import store
from app.identity.provider import Provider as Watched
from app.identity.sign_on import Arrival, SignOn
from app.identity.store import Principal
from app.jobs import events
from app.jobs.changes import Changes
from app.persistence.tables import identities, subjects
from app.settings import Settings
from tests.service.conftest import MakeService
from tests.support.access import PROTECTED, ROLES, RULES, example_path
from tests.support.clocks import HeldClock, SetClock
from tests.support.patience import PATIENCE
from tests.support.provider import ROLES as GROUPS
from tests.support.provider import Provider, provider
from tests.support.service import JOB, OF_THE_REQUEST, Service

SMALL = JOB | {"method": {"name": "dp_gd", "steps": 2}}
UNAVAILABLE = "sign_on_unavailable"
BASE = 1e6  # where these services' clocks begin, and the provider's tokens


@pytest.fixture(scope="module")
def idp() -> Iterator[Provider]:
    with provider() as running:
        yield running


@pytest.fixture(scope="module")
def clock() -> HeldClock:
    held_clock = HeldClock()
    held_clock.set_wall(BASE)
    return held_clock


@pytest.fixture(scope="module")
def signed(
    idp: Provider, clock: HeldClock, make_service: MakeService, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Service]:
    """A service that trusts the provider and grants its researchers "people of all"."""
    grants = {"researchers": ["people of all"]}
    settings = idp.settings(oidc_roles=GROUPS | {"researchers": "analyst"}, oidc_grants=grants)
    with make_service(tmp_path_factory.mktemp("signed") / "home", clock=clock, **settings) as started:
        yield started


@pytest.fixture
def ask(idp: Provider, signed: Service, clock: HeldClock) -> Iterator[Callable[[str], httpx.Response]]:
    """GET the datasets with a token. The provider's keys are out of date, and are restored after the test."""
    keys_before = list(idp.keys)
    clock.pass_(31)
    idp.now += 31
    yield lambda token: signed.client.get("/v1/datasets", headers={"Authorization": f"Bearer {token}"})
    idp.keys, idp.described, idp.published, idp.status, idp.answers = keys_before, {}, None, 200, True


def _as(service: Service, token: str, name: str = "ada") -> None:
    service.tokens[name] = token


@pytest.mark.slow
@pytest.mark.parametrize("role", ROLES)
def test_a_group_has_the_rights_of_its_role(signed: Service, idp: Provider, clock: HeldClock, role: str) -> None:
    """Each route is called with a provider's token for each role."""
    idp.now = clock.wall()
    _as(signed, idp.token((f"{role}s", "others"), sub=f"the {role} of the house"))
    for method, route in PROTECTED:
        answer = signed.call("ada", method, example_path(route))
        allowed = role in RULES[method, route.path]
        assert (answer.status_code not in (401, 403)) == allowed, (method, route.path, answer.text)


def test_a_person_without_a_role_is_unknown(
    ask: Callable[[str], httpx.Response], signed: Service, idp: Provider
) -> None:
    for groups in (("others",), (), None, "Analysts"):
        refused = ask(idp.token(groups, sub="mallory"))
        assert (refused.status_code, refused.json()["code"]) == (403, "forbidden")
    with signed.database.read() as connection:
        assert connection.scalar(sa.select(subjects).where(subjects.c.subject == "mallory")) is None
    assert ask(idp.token("analysts")).status_code == 200, "one group may come without a list"


@pytest.mark.parametrize(
    "claim",
    [
        {"stewards": False},
        {"stewards": True},
        ["analysts", 5],
        ["analysts", ["stewards"]],
        [{"name": "stewards"}],
        5,
        True,
    ],
)
def test_a_groups_claim_of_another_type_gives_no_group(
    ask: Callable[[str], httpx.Response], idp: Provider, claim: Any
) -> None:
    """The claim is a string or a list of strings; the keys of an object are not groups."""
    refused = ask(idp.token(claim, sub="mallory"))
    assert (refused.status_code, refused.json()["code"]) == (403, "forbidden")


def _forged(idp: Provider, algorithm: str, signed: Callable[[bytes], bytes]) -> str:
    header = json.dumps({"alg": algorithm, "kid": idp.keys[0].kid}).encode()
    content = b".".join((urlsafe_b64encode(header), idp.token().split(".")[1].encode()))
    return b".".join((content, urlsafe_b64encode(signed(content)))).decode()


def _unsigned(idp: Provider, _key: Any) -> str:
    return _forged(idp, "none", lambda _: b"")


def _confused(idp: Provider, _key: Any) -> str:
    """Return a token with an HMAC whose key is the public key."""
    return _forged(idp, "HS256", lambda content: hmac.digest(idp.keys[0].as_pem(private=False), content, "sha256"))


def _tampered(idp: Provider, _key: Any) -> str:
    ours, theirs = idp.token().split("."), idp.token(("stewards",)).split(".")
    return ".".join((ours[0], theirs[1], ours[2]))


def _no_object(idp: Provider, _key: Any) -> str:
    return jws.serialize_compact({"alg": "ES256", "kid": idp.keys[0].kid}, b"[1]", idp.keys[0], ["ES256"])


def _with(**changes: Any) -> Callable[[Provider, Any], str]:
    return lambda idp, _key: idp.token(**{n: v(idp) if callable(v) else v for n, v in changes.items()})


REFUSED: dict[str, Callable[[Provider, Any], str]] = {
    "no algorithm": _unsigned,
    "HMAC with the public key": _confused,
    "another payload": _tampered,
    "no object": _no_object,
    "another key under the same name": lambda idp, key: idp.token(key=key, header={"kid": idp.keys[0].kid}),
    "an unknown key": lambda idp, key: idp.token(key=key),
    "a key of its own": lambda idp, key: idp.token(key=key, header={"jwk": key.as_dict(private=False)}),
    "no key": _with(header={"kid": None}),
    "another kind of token": _with(header={"typ": "logout+jwt"}),
    "what nobody understands": _with(header={"crit": ["b4711"], "b4711": 1}),
    "for somebody else": _with(aud="4711"),
    "for several others": _with(aud=["4711", "purse2"]),
    "for nobody": _with(aud=None),
    "another issuer": _with(iss=lambda idp: idp.issuer + "/"),
    "no issuer": _with(iss=None),
    "no end": _with(exp=None),
    "over": _with(exp=lambda idp: idp.now - 61),
    "an end that is no number": _with(exp="soon"),
    "an end that is not finite": _with(exp=float("inf")),
    "not yet": _with(nbf=lambda idp: idp.now + 61),
    "of the future": _with(iat=lambda idp: idp.now + 61),
    "of no time": _with(iat=None),
    "of nobody": _with(sub=None),
    "of a name that cannot be written": _with(sub="a\nda"),
    "of a name without end": _with(sub="a" * 201),
    "too long": _with(more="4711" * 2**11),
    "issuers in a list": _with(iss=lambda idp: [idp.issuer]),
    "audiences in an object": _with(aud={"purse": True}),
    "audiences that are not all text": _with(aud=["purse", 4711]),
    "an end that is true": _with(exp=True),
    "a beginning that is text": _with(iat="soon"),
    "subjects in a list": _with(sub=["ada"]),
    "subjects in an object": _with(sub={"ada": True}),
}


@pytest.mark.parametrize("make_token", REFUSED.values(), ids=REFUSED)
def test_an_invalid_token_is_refused_like_any_unknown_one(
    ask: Callable[[str], httpx.Response], idp: Provider, make_token: Callable[[Provider, Any], str]
) -> None:
    unknown_key = ECKey.generate_key("P-256", {"kid": "of nobody"})
    refused, stranger = ask(make_token(idp, unknown_key)), ask("nobody")
    assert (refused.status_code, refused.content) == (401, stranger.content)
    assert refused.headers.keys() == stranger.headers.keys()
    assert {name for name in refused.headers if refused.headers[name] != stranger.headers[name]} <= OF_THE_REQUEST
    assert ask(idp.token(sub="of the test")).status_code == 200


def test_clocks_may_be_a_little_apart(ask: Callable[[str], httpx.Response], idp: Provider) -> None:
    for changes in ({"exp": idp.now - 59}, {"iat": idp.now + 59, "nbf": idp.now + 59}, {"aud": ["4711", "purse"]}):
        assert ask(idp.token(**changes)).status_code == 200


def test_keys_rotate(ask: Callable[[str], httpx.Response], idp: Provider, clock: HeldClock) -> None:
    """A new key is loaded for its first token. An old one is trusted only while it is published."""
    old_key = idp.keys[0]
    idp.rotate(old_key)
    assert ask(idp.token()).status_code == ask(idp.token(key=old_key)).status_code == 200
    clock.pass_(31)
    idp.rotate()
    assert ask(idp.token()).status_code == 200
    assert ask(idp.token(key=old_key)).status_code == 401


def test_unknown_key_names_cause_one_request_to_the_provider(
    ask: Callable[[str], httpx.Response], idp: Provider
) -> None:
    requests_before = idp.key_requests
    for number in range(50):
        unknown_key = ECKey.generate_key("P-256", {"kid": f"none {number}"})
        assert ask(idp.token(key=unknown_key)).status_code == 401
    assert idp.key_requests == requests_before + 1


def test_only_the_caller_waits_for_a_provider_that_hangs(
    ask: Callable[[str], httpx.Response], signed: Service, idp: Provider
) -> None:
    old = idp.token()
    idp.rotate(*idp.keys)
    idp.answers = False
    statuses: list[int] = []
    waiting = threading.Thread(target=lambda: statuses.append(ask(idp.token()).status_code))
    waiting.start()
    for path in ("/health/live", "/health/ready", "/v1/keys"):
        assert signed.client.get(path).status_code == 200
    assert signed.call("steward", "GET", "/v1/datasets").status_code == ask(old).status_code == 200
    idp.answers = True
    waiting.join(PATIENCE)
    assert statuses == [200]


def test_keys_stay_valid_for_a_while_without_the_provider(
    ask: Callable[[str], httpx.Response], signed: Service, idp: Provider, clock: HeldClock
) -> None:
    ask(idp.token())
    idp.status = 500
    clock.pass_(14_000)
    idp.now = clock.wall()
    assert ask(idp.token()).status_code == 200
    clock.pass_(14_000)
    idp.now = clock.wall()
    expired = ask(idp.token())
    assert (expired.status_code, expired.json()["code"]) == (503, UNAVAILABLE)
    assert int(expired.headers["Retry-After"]) > 0
    assert signed.call("steward", "GET", "/v1/datasets").status_code == 200
    idp.status = 200
    clock.pass_(31)
    assert ask(idp.token()).status_code == 200


SPOILT: dict[str, dict[str, Any]] = {
    "another issuer": {"described": {"issuer": "https://other.example"}},
    "no address of keys": {"described": {"jwks_uri": 5}},
    "a redirect": {"status": 302},
    "no object": {"published": [1]},
    "no list": {"published": {"keys": 5}},
    "more than anybody has": {"published": {"keys": [], "more": "x" * 2**18}},
}


@pytest.mark.parametrize("change", SPOILT.values(), ids=SPOILT)
def test_a_provider_with_an_invalid_answer_is_unavailable(idp: Provider, change: dict[str, Any]) -> None:
    assert _result_of_change(idp, **change) == UNAVAILABLE


def test_keys_sent_without_encryption_are_not_accepted(idp: Provider) -> None:
    """The addresses reach this machine, so the keys could be loaded."""
    assert _result_of_change(idp, described={"jwks_uri": f"{idp.issuer}/keys"}) == "a key"
    assert (
        _result_of_change(idp, described={"jwks_uri": f"{idp.issuer}/keys".replace("127.0.0.1", "0.0.0.0")})
        == UNAVAILABLE
    )


@pytest.mark.filterwarnings("ignore:Key size")
def test_only_public_keys_for_signatures_are_accepted(idp: Provider) -> None:
    """Keys that are weak, secret or meant for another purpose are ignored, and do not disturb the others."""
    name: KeyParameters = {"kid": str(idp.keys[0].kid)}
    keys = [
        RSAKey.generate_key(1024, name).as_dict(private=False),
        OctKey.generate_key(256, name).as_dict(private=True),
        ECKey.generate_key("P-256", name).as_dict(private=True),
        ECKey.generate_key("P-256", {"use": "enc", **name}).as_dict(private=False),
        {"kty": "AKP"} | name,
        {"kty": "EC"} | name,
        5,
    ]
    assert _result_of_change(idp, published={"keys": keys}) == "no key"
    assert _result_of_change(idp, published={"keys": [*keys, idp.keys[0].as_dict(private=False)]}) == "a key"


@pytest.mark.slow
def test_common_extensions_of_providers_are_accepted(idp: Provider) -> None:
    """Keys and headers may have certificates and additional fields, and tokens several audiences. RSA and Edwards
    curves are accepted, each with its own algorithm.
    """
    rsa, edwards = RSAKey.generate_key(2048, {"kid": "r"}), OKPKey.generate_key("Ed25519", {"kid": "e"})
    extras = {"x5c": ["MIIC"], "x5t": "4711", "issuer": idp.issuer, "use": "sig", "alg": "RS256"}
    published = {"keys": [rsa.as_dict(private=False) | extras, edwards.as_dict(private=False)]}
    header = {"typ": "JWT", "x5t": "4711", "b4711": 1}

    async def read(key: RSAKey | OKPKey, algorithm: str) -> str | None:
        token = idp.token(key=key, aud=["account", "purse"], azp="a browser", header=header | {"alg": algorithm})
        clock = SetClock()
        clock.set_wall(idp.now)
        algorithms = ("RS256", "PS256", "Ed25519")
        identity = await SignOn(Settings(**idp.settings(oidc_algorithms=algorithms)), clock).read(token)
        return None if identity is None else identity.subject

    published_before, idp.published = idp.published, published
    try:
        assert asyncio.run(read(rsa, "RS256")) == asyncio.run(read(edwards, "Ed25519")) == "ada"
        assert asyncio.run(read(rsa, "PS256")) is None, "its key is for RS256"
        assert asyncio.run(read(rsa, "RS384")) is None, "RS384 is not configured"
    finally:
        idp.published = published_before


def _result_of_change(idp: Provider, **change: Any) -> str:
    """Return the result for a provider's key that was changed in this way from the start."""
    from app.http.errors import ApiError

    async def look() -> str:
        watched = Watched(idp.issuer, SetClock(), 100.0)
        try:
            return "no key" if await watched.key(str(idp.keys[0].kid)) is None else "a key"
        except ApiError as error:
            return error.code

    values_before = {name: getattr(idp, name) for name in change}
    try:
        vars(idp).update(change)
        return asyncio.run(look())
    finally:
        vars(idp).update(values_before)


@pytest.mark.slow
class TestAPerson:
    """An issuer and a subject are one identity, independently of other claims."""

    def test_keeps_jobs_keys_and_spending(self, signed: Service, idp: Provider, clock: HeldClock) -> None:
        clock.pass_(31)
        idp.now = clock.wall()
        dataset = signed.dataset()
        _as(signed, idp.token(sub="carol"))
        assert signed.call("ada", "GET", "/v1/jobs").json()["items"] == []
        assert signed.call("ada", "GET", f"/v1/datasets/{dataset}").status_code == 404
        signed.grant(dataset, "carol")
        body, headers = {"dataset": dataset, **SMALL}, {"Idempotency-Key": "k"}
        job = signed.call("ada", "POST", "/v1/jobs", json=body, headers=headers).json()["id"]
        idp.rotate()
        _as(signed, idp.token(sub="carol", exp=idp.now + 200, name="Another"))
        assert signed.call("ada", "POST", "/v1/jobs", json=body, headers=headers).json()["id"] == job
        [mine] = signed.call("ada", "GET", f"/v1/datasets/{dataset}/budget").json()["analysts"]
        assert (mine["analyst"], mine["jobs"]) == ("carol", 1)
        _as(signed, idp.token(sub="dave"))
        assert signed.call("ada", "GET", f"/v1/jobs/{job}").status_code == 404
        _as(signed, idp.token(("stewards",), sub="carol"))  # promoted, and the same person
        assert signed.call("ada", "GET", "/v1/tokens").status_code == 200
        _as(signed, idp.token(sub="carol"))
        assert signed.call("ada", "GET", "/v1/tokens").status_code == 403
        assert [listed_job["id"] for listed_job in signed.call("ada", "GET", "/v1/jobs").json()["items"]] == [job]

    def test_has_a_name_that_no_token_joins(
        self, signed: Service, ask: Callable[[str], httpx.Response], idp: Provider
    ) -> None:
        ask(idp.token(sub="erin"))
        body = {"name": "erin", "role": "analyst"}
        refused = signed.call("steward", "POST", "/v1/tokens", json=body)
        assert (refused.status_code, refused.json()["code"]) == (409, "name_taken")
        ask(idp.token(sub="the analyst"))  # whose name a token has
        with signed.database.read() as connection:
            named = (
                sa.select(identities.c.name).join_from(subjects, identities).where(subjects.c.subject == "the analyst")
            )
            assert connection.scalar(named) == "the analyst (2)"

    def test_sees_the_datasets_of_its_groups(
        self, signed: Service, ask: Callable[[str], httpx.Response], idp: Provider
    ) -> None:
        assert ask(idp.token(("researchers",), sub="frank")).json()["items"] == []
        dataset = signed.dataset(name="people of all")
        other_dataset = signed.dataset()
        _as(signed, idp.token(("researchers",), sub="frank"))
        [listed_dataset] = signed.call("ada", "GET", "/v1/datasets").json()["items"]
        assert listed_dataset["id"] == dataset
        assert signed.call("ada", "GET", f"/v1/datasets/{other_dataset}").status_code == 404
        body = {"dataset": dataset, **SMALL}
        assert signed.call("ada", "POST", "/v1/jobs", json=body).status_code == 202
        _as(signed, idp.token(sub="frank"))
        assert signed.call("ada", "GET", f"/v1/datasets/{dataset}").status_code == 404
        assert signed.call("ada", "POST", "/v1/jobs", json=body).status_code == 404

    def test_has_another_identity_at_another_provider(
        self, tmp_path: Any, make_service: MakeService, idp: Provider
    ) -> None:
        clock = HeldClock()
        clock.set_wall(idp.now)
        names = []
        with provider() as second:
            second.now = idp.now
            for issuer in (idp, second):
                with make_service(tmp_path, clock=clock, **issuer.settings()) as service:
                    _as(service, issuer.token())
                    assert service.call("ada", "GET", "/v1/jobs").status_code == 200
                    with service.database.read() as connection:
                        query = sa.select(identities.c.name).join_from(subjects, identities)
                        names = sorted(connection.scalars(query))
            assert names == ["ada", "ada (2)"]

    def test_is_never_identified_by_a_name(
        self, signed: Service, ask: Callable[[str], httpx.Response], idp: Provider
    ) -> None:
        """A person whose name equals another identity's id gets none of its grants."""
        tokens = signed.call("steward", "GET", "/v1/tokens").json()["items"]
        identifier = {token["name"]: token["id"] for token in tokens}["the analyst"]
        ask(idp.token(sub=identifier))
        ask(idp.token(sub="https://people.example/ivan"))
        dataset = signed.dataset()
        responses = [
            signed.call("steward", "PUT", f"/v1/datasets/{dataset}/grants/{n}")
            for n in (identifier, "https:||people.example|ivan")
        ]
        assert [response.json()["analyst"] for response in responses] == ["the analyst", "https:||people.example|ivan"]

    def test_arrives_twice_at_once_and_has_one_identity(self, signed: Service) -> None:
        """Both first requests read before either writes."""
        first = Arrival("https://idp.example", "heidi", "analyst", (), "2999-01-01T00:00:00.000Z")
        for _ in range(2):
            with signed.database.write(alone="names") as connection:
                store.welcome(connection, first, "analyst", signed.database.timestamp())
        with signed.database.read() as connection:
            identity = store.arrived(connection, first, "analyst")
            assert list(connection.scalars(sa.select(identities.c.name).where(identities.c.name.like("heidi%")))) == [
                "heidi"
            ]
        assert identity is not None
        assert (identity.name, identity.role, identity.datasets) == ("heidi", "analyst", ())

    def test_leaves_no_token_on_the_disk(
        self, signed: Service, ask: Callable[[str], httpx.Response], idp: Provider
    ) -> None:
        token = idp.token(sub="grace")
        assert ask(token).status_code == 200
        signature = token.rsplit(".", 1)[1].encode()
        contents = [file.read_bytes() for file in signed.home.rglob("*") if file.is_file()]
        assert any(b"grace" in content for content in contents)
        assert not any(signature in content for content in contents)


@pytest.mark.slow
def test_an_operator_bounds_sign_ons_too(tmp_path: Any, make_service: MakeService, idp: Provider) -> None:
    clock = HeldClock()
    clock.set_wall(idp.now)
    with make_service(tmp_path, clock=clock, max_token_lifetime=100, **idp.settings()) as service:
        _as(service, idp.token(exp=idp.now + 10**6))
        for seconds, status in ((159, 200), (1, 401)):
            clock.set_wall(seconds)
            assert service.call("ada", "GET", "/v1/datasets").status_code == status


def test_a_stream_ends_with_the_sign_on(signed: Service) -> None:
    async def stream_events() -> list[Any]:
        over = Principal("idn_nobody", "nobody", "analyst", ends="1970-01-01T00:00:00.000Z")
        nobody = Changes(signed.database)
        return [event async for event in events.follow(signed.database, "job_nobody", (-1, 0, 0), over, nobody)]

    assert asyncio.run(stream_events()) == []


@pytest.mark.parametrize(
    "change",
    [
        {"oidc_issuer": "http://idp.example"},
        {"oidc_issuer": "https://idp.example?x=1"},
        {"oidc_issuer": "https://me@idp.example"},
        {"oidc_issuer": "ftp://idp.example"},
        {"oidc_audience": None},
        {"oidc_roles": {}},
        {"oidc_roles": {"all": "root"}},
        {"oidc_algorithms": ()},
        {"oidc_algorithms": ("none",)},
        {"oidc_algorithms": ("HS256",)},
        {"oidc_skew_seconds": 301},
    ],
)
def test_settings_that_would_let_anybody_in_stop_the_start(change: dict[str, Any]) -> None:
    good: dict[str, Any] = {
        "oidc_issuer": "https://idp.example/realm",
        "oidc_audience": "purse",
        "oidc_roles": {"all": "analyst"},
    }
    assert Settings(**good).oidc_roles == {"all": "analyst"}
    with pytest.raises(ValidationError):
        Settings(**good | change)
