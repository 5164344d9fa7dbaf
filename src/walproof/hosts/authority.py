"""A certificate authority for one run: it lives in walproof's memory and signs a name for each server.

A host makes its own key, which never leaves it, and sends a request (PKCS #10). The authority's key is never
written anywhere. A client verifies the name and the chain (``sslmode=verify-full``).
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from walproof.errors import HostError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
    from cryptography.x509 import Name

_BEFORE = timedelta(days=1)
"""How far a certificate is dated back, because the clocks of hosts differ."""
_LONGEST = timedelta(days=30)
"""The longest run for which a certificate is valid."""


class Authority:
    """Signs requests while it exists. Raises HostError when the library is missing."""

    def __init__(self) -> None:
        _library()
        from cryptography import x509
        from cryptography.hazmat.primitives import hashes

        self._key = _new_key()
        self._name = _named("walproof, for one run")
        now = datetime.now(UTC)
        self._certificate = (
            x509.CertificateBuilder()
            .subject_name(self._name)
            .issuer_name(self._name)
            .public_key(self._key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - _BEFORE)
            .not_valid_after(now + _LONGEST)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .sign(self._key, hashes.SHA256())
        )

    @property
    def certificate(self) -> str:
        """The authority's certificate, in PEM, with which the servers' certificates are verified."""
        return _pem(self._certificate)

    def sign(self, request: str, name: str) -> str:
        """The certificate, in PEM, of a server called ``name``. Names in the request itself are ignored."""
        from cryptography import x509
        from cryptography.hazmat.primitives import hashes

        asked = x509.load_pem_x509_csr(request.encode())
        now = datetime.now(UTC)
        return _pem(
            x509.CertificateBuilder()
            .subject_name(_named(name))
            .issuer_name(self._name)
            .public_key(asked.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - _BEFORE)
            .not_valid_after(now + _LONGEST)
            .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .sign(self._key, hashes.SHA256())
        )


def make_key() -> tuple[str, str]:
    """Make a key. Returns the private key and the request to certify it, in PEM. Raises HostError."""
    _library()
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization

    key = _new_key()
    request = (
        x509.CertificateSigningRequestBuilder().subject_name(_named("server")).sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return private.decode(), _pem(request)


def _new_key() -> EllipticCurvePrivateKey:
    from cryptography.hazmat.primitives.asymmetric import ec

    # Some builds of PostgreSQL 13 ship an OpenSSL of 2012, which accepts this curve too.
    return ec.generate_private_key(ec.SECP256R1())


def _named(text: str) -> Name:
    from cryptography import x509
    from cryptography.x509.oid import NameOID

    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _pem(what: object) -> str:
    from cryptography.hazmat.primitives import serialization

    return what.public_bytes(serialization.Encoding.PEM).decode()  # type: ignore[attr-defined, no-any-return]


def _library() -> None:
    try:
        import cryptography  # noqa: F401
    except ImportError as error:
        raise HostError(
            "servers on two hosts need certificates, and the library that makes them is not installed",
            detail=str(error),
            hint='pip install "walproof[hosts]", here and on every host.',
        ) from None
