"""The client library for one bucket, with its limits; the only file that imports it.

Settings and credentials are the library's: its environment variables and its providers (web identity, roles
of machines and containers, service accounts). Of these, only the address of the server is read here, since
plain HTTP is only for servers on this machine."""

from __future__ import annotations

import os
from datetime import timedelta
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from walproof.errors import WalError
from walproof.units import parse_duration_s

if TYPE_CHECKING:
    from obstore.store import AzureStore, GCSStore, RetryConfig, S3Store

TOTAL_VARIABLE = "WALPROOF_OBJECT_STORE_TIMEOUT"
"""Environment variable: how long one request is repeated, such as ``30s``."""
_TOTAL_S = 120.0
_MOST_RETRIES = 10
_CONNECT_S = 5
_REQUEST_S = 60
"""One answer with its body, which is a piece of an object."""
_ENDPOINTS = {
    "s3": ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT"),
    "gs": ("GOOGLE_BASE_URL", "GOOGLE_STORAGE_BASE_URL", "STORAGE_EMULATOR_HOST"),
    "az": ("AZURE_STORAGE_ENDPOINT", "AZURE_ENDPOINT"),
}
_ALLOW_HTTP = {"s3": "AWS_ALLOW_HTTP", "gs": "GOOGLE_ALLOW_HTTP", "az": "AZURE_ALLOW_HTTP"}


def total_s() -> float:
    """How long one request is repeated, at most. Raises UnitError."""
    text = os.environ.get(TOTAL_VARIABLE)
    return _TOTAL_S if text is None else parse_duration_s(text)


def retry_config() -> RetryConfig:
    """Waits double from 0.1 s to 15 s, at random within that; their number and the total time are bounded."""
    return {
        "max_retries": _MOST_RETRIES,
        "backoff": {
            "init_backoff": timedelta(milliseconds=100), "max_backoff": timedelta(seconds=15), "base": 2,
        },
        "retry_timeout": timedelta(seconds=total_s()),
    }  # fmt: skip


def open_client(scheme: str, bucket: str) -> S3Store | GCSStore | AzureStore:
    """A client for one bucket. Nothing is asked yet. Raises WalError."""
    try:
        from obstore.store import AzureStore, GCSStore, S3Store
    except ImportError as error:
        raise WalError(
            f'reading "{scheme}://{bucket}" needs obstore', hint='Install it: pip install "walproof[s3]".'
        ) from error
    options: dict[str, Any] = {
        "client_options": {
            "connect_timeout": timedelta(seconds=_CONNECT_S), "timeout": timedelta(seconds=_REQUEST_S),
        },
        "retry_config": retry_config(),
    }  # fmt: skip
    if _uses_http(scheme):
        options["client_options"]["allow_http"] = True
    try:
        if scheme == "s3":
            return S3Store(bucket, **options)
        if scheme == "gs":
            return GCSStore(bucket, **options)
        return AzureStore(bucket, **options)
    except Exception:  # its message may hold what it was given
        raise WalError(
            f'could not open "{scheme}://{bucket}"',
            detail="The client library did not accept its settings.",
            hint=_SETTINGS[scheme],
        ) from None


_SETTINGS = {
    "s3": "They come from environment variables that begin with AWS_.",
    "gs": "They come from environment variables that begin with GOOGLE_.",
    "az": "They come from environment variables that begin with AZURE_; AZURE_STORAGE_ACCOUNT_NAME is one.",
}


def _uses_http(scheme: str) -> bool:
    """Whether the address in the environment is of plain HTTP, and allowed. Raises WalError, also where it
    is none."""
    if scheme == "az" and os.environ.get("AZURE_STORAGE_USE_EMULATOR", "").lower() in ("1", "true", "yes"):
        return True
    for variable in _ENDPOINTS[scheme]:
        endpoint = os.environ.get(variable)
        if not endpoint:
            continue
        # The library does not read this one, in which other clients take a name without a scheme.
        if variable != "STORAGE_EMULATOR_HOST" and not _is_address(endpoint):
            raise WalError(
                f"{variable} is no address of a server",
                detail="The client library takes an address with its scheme, a host and perhaps a port.",
                hint=f"Set it to https://HOST:PORT: {variable}=https://storage.example:9000",
            )
        parts = urlsplit(endpoint)
        if parts.scheme != "http":
            return False
        if _is_loopback(parts.hostname or "") or _is_allowed(_ALLOW_HTTP[scheme]):
            return True
        raise WalError(
            f"{variable} names a server without encryption",
            detail="Over plain HTTP anybody on the way can read the WAL, and change it.",
            hint=f"Use https://, or set {_ALLOW_HTTP[scheme]}=true.",
        )
    return False


def _is_address(endpoint: str) -> bool:
    """Whether the library can make requests of it; it panics over others."""
    try:
        parts = urlsplit(endpoint)
        is_whole = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # a port that is no number, or too large
        return False
    return is_whole and endpoint.isascii() and endpoint.isprintable() and " " not in endpoint


def _is_allowed(variable: str) -> bool:
    return os.environ.get(variable, "").lower() in ("1", "true", "yes", "on", "y", "t")


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
