"""Certificates for the engine's channel: an authority, and a certificate for each server, scheduler and worker.

A holder of a certificate of this authority may run code on every worker and on the scheduler. A certificate therefore
gives access to the data (docs/operations.md). Nobody can connect without one; names in certificates are not checked.
"""

import datetime
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from app.persistence.files import locked, write_whole

AUTHORITY = "ca"
_PURPOSES = [ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.SERVER_AUTH]
_CLOCK_TOLERANCE = datetime.timedelta(hours=1)
_AUTHORITY_DAYS = 3650


def issue(folder: Path, name: str, days: int) -> tuple[Path, Path]:
    """Write `<name>.pem` and `<name>-key.pem`, signed by the folder's authority, which is created if it is missing.

    The key is written first. A key without a certificate is left over from a kill, and gets its certificate now.

    Raises
    ------
    FileExistsError
        if a certificate of this name exists.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    with locked(folder / AUTHORITY):
        if not _files(folder, AUTHORITY)[0].exists():
            _make(folder, AUTHORITY, None, _AUTHORITY_DAYS)
        if _files(folder, name)[0].exists():
            raise FileExistsError(name)
        return _make(folder, name, folder, days)


def _make(folder: Path, name: str, authority: Path | None, days: int) -> tuple[Path, Path]:
    certificate, private = _files(folder, name)
    key = _key(private) if private.exists() else ec.generate_private_key(ec.SECP256R1())
    now = datetime.datetime.now(datetime.UTC)
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    issuer, signing = (subject, key) if authority is None else _authority(authority)
    builder = x509.CertificateBuilder(issuer, subject, key.public_key(), x509.random_serial_number())
    builder = builder.not_valid_before(now - _CLOCK_TOLERANCE).not_valid_after(now + datetime.timedelta(days=days))
    extensions: list[tuple[x509.ExtensionType, bool]] = [
        (x509.BasicConstraints(ca=authority is None, path_length=0 if authority is None else None), True),
        (_usage(is_authority=authority is None), True),
        (x509.SubjectKeyIdentifier.from_public_key(key.public_key()), False),
        (x509.AuthorityKeyIdentifier.from_issuer_public_key(signing.public_key()), False),
    ]
    if authority is not None:
        extensions += [
            (x509.ExtendedKeyUsage(_PURPOSES), False),
            (x509.SubjectAlternativeName([x509.DNSName(name)]), False),
        ]
    for extension, is_critical in extensions:
        builder = builder.add_extension(extension, is_critical)
    write_whole(private, key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    write_whole(certificate, builder.sign(signing, SHA256()).public_bytes(Encoding.PEM))
    return certificate, private


def _authority(folder: Path) -> tuple[x509.Name, ec.EllipticCurvePrivateKey]:
    certificate, private = _files(folder, AUTHORITY)
    return x509.load_pem_x509_certificate(certificate.read_bytes()).subject, _key(private)


def _key(file: Path) -> ec.EllipticCurvePrivateKey:
    key = load_pem_private_key(file.read_bytes(), None)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    return key


def _usage(is_authority: bool) -> x509.KeyUsage:
    ours = {"key_cert_sign": is_authority, "crl_sign": is_authority, "digital_signature": not is_authority}
    none = dict.fromkeys(
        ("content_commitment", "key_encipherment", "data_encipherment", "key_agreement", "encipher_only"), False
    )
    return x509.KeyUsage(**ours, **none, decipher_only=False)


def _files(folder: Path, name: str) -> tuple[Path, Path]:
    return folder / f"{name}.pem", folder / f"{name}-key.pem"
