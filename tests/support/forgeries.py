"""Receipts, keys and documents that the verifiers in Python and in the browser must refuse."""

import base64
import json
from dataclasses import replace
from typing import Any

from joserfc import jws
from joserfc.jwk import ECKey, OctKey, OKPKey

from accounting.records import signing
from accounting.records.chain import Entry, link
from accounting.records.documents import canonical
from tests.support.receipts import ENTRY, GOOD, KEY, KEYS, MODEL, document, make, release_entry

NAN, INFINITY = float("nan"), float("inf")
# Values that no field of this name may have, even if the signature is valid.
BAD_FIELDS: dict[str, list[Any]] = {
    "rows": [0, -1, True, 1.5, 2**53, None, "5"],
    "persons": [5],
    "unit": [{"name": "person"}, {"name": "row", "max_rows": 4}, {"name": "person", "max_rows": 5000}, {"k": 1}, None],
    "neighbors": ["add_remove", 1],
    "numerics": ["float"],
    "epsilon": [-1.0, NAN, INFINITY, "0.5", True, 101, 1e300, None],
    "delta": [0.5, None, -1e-9],
    "sequence": [0, -3, 1.5],
    "hash": ["AB" * 32, "ab", None],
    "previous_hash": [MODEL + "\n"],
    "model_sha256": [1],
    "issued_at": ["yesterday", "2026-01-02", "2026-01-02T03:04:05", "2026-01-02T03:04:05Z\n"],
    "id": ["", "a\x00", "x" * 257],
    "dataset_name": ["\ud800"],
    "analyst": ["x" * 300, ["ada"]],
    "method": ["dp_gd", {}, {"name": 3}, {"name": ""}, {"name": "dp_gd", "step": NAN}],
    "event": [[], None],
    "queries": [[], {}, [{}], [1]],
    "profile": [{"job": "j"}, {"job": "j", "sha256": "ab"}, "j"],
    "share": [1.5, "1"],
}
_QUERY = GOOD["receipt"]["queries"][0]
# Lists of queries that no receipt may state, even if the signature is valid.
BAD_QUERIES: list[Any] = [
    [_QUERY | change]
    for change in (
        {"count": 0}, {"count": 99}, {"count": 1.5}, {"count": 2 * 10**9}, {"noise_multiplier": 0},
        {"noise_multiplier": 1e-9}, {"noise_multiplier": "1"}, {"name": ""}, {"rate": 0.5}, {"mechanism": 3},
        {"mechanism": "laplace"}, {"mechanism": "poisson_gaussian"}, {"mechanism": "last_iterate", "steps": 3},
        {"mechanism": "parallel", "parts": 3, "each": {"name": "exponential"}}, {"mechanism": "constructor"},
        {"mechanism": None},
    )
] + [[_QUERY, _QUERY], [_QUERY | {"name": str(i)} for i in range(65)]]  # fmt: skip


def headers() -> list[dict[str, Any]]:
    """Return the receipt with signatures of another algorithm, kind or header, some by the trusted key."""
    stranger, built, kid = signing.generate_key(), make(), KEY.private.thumbprint()
    own: dict[str, Any] = {"alg": "Ed25519", "kid": kid, "typ": "privy-purse-receipt"}
    public, public_key = stranger.private.as_dict(private=False), KEY.private.as_dict(private=False)
    secret = OctKey.import_key(base64.urlsafe_b64decode(str(public_key["x"]) + "=="))
    signed = [
        (own | {"alg": "none"}, None),
        (own | {"alg": "HS256"}, secret),
        (own | {"alg": "EdDSA"}, KEY.private),
        (own | {"typ": "JWT"}, KEY.private),
        (own | {"typ": "privy-purse-head"}, KEY.private),
        ({"alg": "Ed25519", "kid": kid}, KEY.private),
        ({"alg": "Ed25519", "typ": own["typ"]}, KEY.private),
        (own | {"jwk": public}, stranger.private),
        ({"alg": "Ed25519", "typ": own["typ"], "jwk": public}, stranger.private),
    ]
    texts: list[Any] = [jws.serialize_compact(header, canonical(built), key, [header["alg"]]) for header, key in signed]
    texts += [None, 1, "", "a.b", "a.b.c.d", ".e30.AA", "W10.e30.AA"]
    return [{"receipt": built, "signature": text} for text in texts]


def other_bytes() -> dict[str, Any]:
    """Return the receipt with a true signature of the same JSON value in other bytes."""
    built, header = make(), {"alg": "Ed25519", "kid": KEY.private.thumbprint(), "typ": "privy-purse-receipt"}
    return {"receipt": built, "signature": jws.serialize_compact(header, json.dumps(built), KEY.private, ["Ed25519"])}


def other_keys() -> list[dict[str, Any]]:
    """Return keys that a set of trusted keys may hold beside the one that signed."""
    octet: dict[str, Any] = {"kty": "OKP", "crv": "Ed25519"}
    return [
        ECKey.generate_key("P-256").as_dict(private=False),
        *(octet, octet | {"x": "AA"}, octet | {"x": "not base64!"}, octet | {"x": 7}, {"kty": "EC"}, {}),
        OKPKey.generate_key("Ed448").as_dict(private=False),
        OKPKey.generate_key("Ed25519").as_dict(private=False),
    ]


NO_KEY_SETS: tuple[Any, ...] = (None, [], {}, {"keys": None}, {"keys": [1]}, {"keys": [{}] * 1000}, "x")


def renamed_key(kid: str | None = None) -> dict[str, Any]:
    """Return a stranger's key under the trusted key's name; or the trusted key under another name."""
    key = KEYS["keys"][0] if kid else signing.jwks(signing.generate_key())["keys"][0]
    return {"keys": [key | {"kid": kid or KEY.private.thumbprint()}]}


def other_releases() -> list[tuple[dict[str, Any], Entry]]:
    """Return receipts that are truly signed, each with an entry of the ledger that is not its release."""
    failed = link(ENTRY.sequence, "failed", ENTRY.body, ENTRY.previous_hash)
    return [
        (GOOD, release_entry(model="cd" * 32)),
        (GOOD, release_entry(job="j2")),
        (GOOD, replace(ENTRY, sequence=5)),
        (GOOD, replace(ENTRY, hash=MODEL)),
        (GOOD, replace(ENTRY, kind="failed")),
        (GOOD, replace(ENTRY, body=ENTRY.body | {"job": "j2"})),
        (GOOD, replace(ENTRY, body=ENTRY.body | {"attempt": 2})),
        (document(make(job="j2")), ENTRY),
        (document(make(model_sha256="cd" * 32)), ENTRY),
        (document(make(issued_at="1999-01-01T00:00:00Z")), ENTRY),
        (document(make(entry=failed)), failed),
    ]


_TEXT = json.dumps(GOOD)
# Texts that are not a document: repeated keys, numbers that no double holds, text beside it.
NO_DOCUMENTS = [
    "", "[]", "{}", "null", "x", _TEXT + "x", "\ufeff" + _TEXT, _TEXT[:-1] + ', "signature": ""}', _TEXT[:-1] + ",}",
    '{"receipt": NaN}', _TEXT.replace('"rows": 20000', '"rows": 20000, "rows": 20000'),
    _TEXT.replace("20000", "020000"), _TEXT.replace('"rows"', '"\\u0072ows": 20000, "rows"'),
    _TEXT.replace("20000", "NaN"), _TEXT.replace("20000", "1e999"), _TEXT.replace("20000", "123456789012345678901"),
    _TEXT.replace("Cens", "\\ud800"), "[" * 5000 + "]" * 5000,
]  # fmt: skip
