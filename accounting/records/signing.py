"""Ed25519 keys, and signatures of canonical JSON as compact JWS with one pinned algorithm.

A key is named by its RFC 7638 thumbprint. The key file is a JWK Set: the signing key first, then the public halves of
earlier signing keys, so that their signatures can still be verified.
"""

import fcntl
import hmac
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from joserfc import jws
from joserfc.errors import JoseError
from joserfc.jwk import OKPKey
from joserfc.util import urlsafe_b64decode

from accounting.errors import CodecError, ReceiptInvalid
from accounting.records.documents import canonical, fields, parse

ALGORITHM: Final = "Ed25519"
RECEIPT: Final = "privy-purse-receipt"
HEAD: Final = "privy-purse-head"
MOST_PAYLOAD_BYTES: Final = 100_000  # joserfc reads back 128,000
_MOST_KEYS = 256
_CHECKPOINT = b"privy-purse-checkpoint"

Jwks = dict[str, Any]
# A signature of one kind is not accepted as one of another kind.
Kind = Literal["privy-purse-receipt", "privy-purse-head"]


@dataclass(frozen=True, slots=True)
class SigningKey:
    """The private signing key, and the public halves of earlier ones."""

    private: OKPKey
    retired: tuple[OKPKey, ...] = ()


def generate_key() -> SigningKey:
    """Return a new key from the operating system's randomness."""
    return SigningKey(OKPKey.generate_key(ALGORITHM, private=True))


def load_key(path: Path) -> SigningKey:
    """Return the key in the file; if there is no file, a new key is written first (mode 0600, atomically).

    Raises
    ------
    ReceiptInvalid
        if the file is not a key file of this service.
    """
    if not path.exists():
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        _write(path, generate_key(), replacing=False)
    return read_key(path)


def read_key(path: Path) -> SigningKey:
    """Return the key in the file; `ReceiptInvalid` if it has no key of this service, `OSError` if there is no file."""
    try:
        keys = _key_list(parse(path.read_bytes()))
        return SigningKey(_import(keys[0], private=True), tuple(_import(key) for key in keys[1:]))
    except (ValueError, JoseError, IndexError) as error:
        raise ReceiptInvalid("the signing key file has no signing key. Restore it from a backup") from error


def rotate_key(path: Path) -> SigningKey:
    """Replace the key in the file by a new one and return it; the public half of the old key is kept behind it.

    Concurrent callers wait for each other.

    Raises
    ------
    ReceiptInvalid
        if the file has no key of this service, or as many keys as a verifier reads. `OSError` if there is no file.
    """
    with _opened(path.parent) as folder:
        fcntl.flock(folder, fcntl.LOCK_EX)
        old = read_key(path)
        if len(old.retired) + 2 > _MOST_KEYS:
            raise ReceiptInvalid(f"the key file holds {_MOST_KEYS} keys already, and verifiers read no more")
        new = SigningKey(generate_key().private, (_import(_export(old.private)), *old.retired))
        _write(path, new, replacing=True)
    return new


def jwks(key: SigningKey) -> Jwks:
    """Return the public keys as a JWK Set, the current one first."""
    return {"keys": [_export(k) for k in (key.private, *key.retired)]}


def sign_json(document: Any, key: SigningKey, kind: Kind = RECEIPT) -> str:
    """Return the compact JWS of RFC8785(document). Raise `ReceiptInvalid` if that is longer than 100,000 bytes."""
    payload = canonical(document)
    if len(payload) > MOST_PAYLOAD_BYTES:
        raise ReceiptInvalid(f"the document is longer than the {MOST_PAYLOAD_BYTES} bytes that can be signed")
    header = {"alg": ALGORITHM, "kid": key.private.thumbprint(), "typ": kind}
    return jws.serialize_compact(header, payload, key.private, algorithms=[ALGORITHM])


def check_json(document: Any, signature: Any, trusted: Any, kind: Kind = RECEIPT) -> str | None:
    """Return None if a trusted key signed exactly RFC8785(document), otherwise the reason why not.

    Parameters
    ----------
    document : JSON value
    signature : compact JWS; its header must have alg "Ed25519", kid and typ, and nothing else
    trusted : JWK Set; a key in the document or the header is never used

    Raises
    ------
    ReceiptInvalid
        if the signature is not such a JWS, the document has no canonical form, or `trusted` is not a JWK Set.
    """
    kid = named_key(signature, kind)
    try:
        payload = canonical(document)
    except CodecError as error:
        raise ReceiptInvalid(str(error)) from error
    for candidate in _key_list(trusted):
        if candidate.get("kty") != "OKP" or candidate.get("crv") != ALGORITHM:
            continue
        try:
            key = _import(candidate)
            if key.thumbprint() != kid:
                continue
            signed = jws.deserialize_compact(signature, key, algorithms=[ALGORITHM]).payload
        except (JoseError, ValueError):
            continue
        return None if signed == payload else "the document was changed after it was signed"
    return "no trusted key made this signature"


def authenticate_checkpoint(document: Any, key: SigningKey) -> str:
    """Return the HMAC-SHA256 of RFC8785(document), which only the owner of the private key can make and check.

    Its key is derived from the private key. Checking it takes much less time than checking a signature.
    """
    private = key.private.private_key
    assert isinstance(private, Ed25519PrivateKey)
    derived = hmac.digest(private.private_bytes_raw(), _CHECKPOINT, "sha256")
    return hmac.digest(derived, canonical(document), "sha256").hex()


def named_key(signature: Any, kind: Kind = RECEIPT) -> str:
    """Return the thumbprint of the key that a signature names, which `check_json` verifies.

    Raises
    ------
    ReceiptInvalid
        if it is not a signature of this kind.
    """
    if not isinstance(signature, str) or len(signature) > 2 * MOST_PAYLOAD_BYTES or signature.count(".") != 2:
        raise ReceiptInvalid("the signature must be a compact JWS")
    try:
        header = fields(parse(urlsafe_b64decode(signature.split(".")[0].encode())), ("alg", "kid", "typ"), "the header")
    except ValueError as error:  # of base64, of UTF-8, and CodecError
        raise ReceiptInvalid("the signature's header must have alg, kid and typ, and nothing else") from error
    if header["alg"] != ALGORITHM or header["typ"] != kind or not isinstance(header["kid"], str):
        raise ReceiptInvalid(f'the signature\'s header must have alg "{ALGORITHM}" and typ "{kind}"')
    return str(header["kid"])


def sign_message(message: bytes, key: SigningKey) -> bytes:
    """Return the Ed25519 signature of a message that has two full stops or more.

    The signed part of a JWS has exactly one full stop, so this signature is never valid for a JWS.

    Raises
    ------
    ValueError
        if the message has fewer than two.
    """
    if message.count(b".") < 2:
        raise ValueError("a message to sign must have two full stops or more")
    private = key.private.private_key
    assert isinstance(private, Ed25519PrivateKey)
    return private.sign(message)


def signed_by(message: bytes, signature: bytes, trusted: Any) -> bool:
    """Return whether a key of this JWK Set signed this message with `sign_message`."""
    for candidate in _key_list(trusted):
        with suppress(ReceiptInvalid, JoseError, ValueError, InvalidSignature):
            public = _import(candidate).public_key
            assert isinstance(public, Ed25519PublicKey)
            public.verify(signature, message)
            return message.count(b".") >= 2
    return False


def _key_list(document: Any) -> list[dict[str, Any]]:
    keys = document.get("keys") if isinstance(document, dict) else None
    if not isinstance(keys, list) or len(keys) > _MOST_KEYS or not all(isinstance(key, dict) for key in keys):
        raise ReceiptInvalid('the trusted keys must be a JWK Set: {"keys": [...]}')
    return keys


def _import(document: dict[str, Any], private: bool = False) -> OKPKey:
    members = ("kty", "crv", "x", "d") if private else ("kty", "crv", "x")
    values = {member: document.get(member) for member in members}
    if values["kty"] != "OKP" or values["crv"] != ALGORITHM or not all(isinstance(v, str) for v in values.values()):
        raise ReceiptInvalid(f"a key must be an OKP key on {ALGORITHM}")
    return OKPKey.import_key({member: str(value) for member, value in values.items()})


def _export(key: OKPKey, private: bool = False) -> dict[str, Any]:
    return {**key.as_dict(private=private), "kid": key.thumbprint(), "use": "sig", "alg": ALGORITHM}


@contextmanager
def _opened(folder: Path) -> Iterator[int]:
    """Yield a descriptor of a folder."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _write(path: Path, key: SigningKey, replacing: bool) -> None:
    """Write the key to a synced file of mode 0600, then rename that to `path`; unless `replacing`, keep an old file."""
    document = {"keys": [_export(key.private, private=True), *(_export(k) for k in key.retired)]}
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(canonical(document))
            file.flush()
            os.fsync(file.fileno())
        if replacing:
            os.replace(temporary, path)
        else:
            os.link(temporary, path)
    except FileExistsError:
        pass  # another process was first, and its key is used
    finally:
        Path(temporary).unlink(missing_ok=True)
    with _opened(path.parent) as folder:
        os.fsync(folder)
