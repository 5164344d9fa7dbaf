"""What went wrong with a store, in our own words. Servers and the library put what they were sent into their
messages: ids of keys, the text that was signed, signed addresses. So of such a message only a known code and
a status are passed on."""

from __future__ import annotations

import re

from walproof.errors import WalError


class ObjectError(Exception):
    """One object cannot be read, while others can."""


_CODE = re.compile(r"<Code>([A-Za-z]{3,60})</Code>")
_STATUS = re.compile(r"status(?: code)?:? ?([1-5]\d\d)\b", re.IGNORECASE)
_OF_OBJECT = {
    "InvalidObjectState": "it is in an archive tier, and has to be restored first",
    "BlobArchived": "it is in an archive tier, and has to be rehydrated first",
}
"""Codes that concern only one object."""
_HINTS = {
    "s3": "Credentials come from the environment (AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, "
    "AWS_SESSION_TOKEN), a web identity, or the machine's role; AWS_REGION names the region.",
    "gs": "Credentials come from GOOGLE_APPLICATION_CREDENTIALS, or the machine's service account.",
    "az": "Credentials come from the environment (AZURE_STORAGE_ACCOUNT_NAME, AZURE_STORAGE_ACCOUNT_KEY, "
    "AZURE_STORAGE_SAS_TOKEN, AZURE_CLIENT_ID ...), or the machine's identity.",
}


def failure(error: BaseException, root: str, path: str) -> WalError | ObjectError:
    """The error of a call of the library for ``path`` of the store ``root``."""
    scheme = root.partition("://")[0]
    kind, text = type(error).__name__, str(error)
    code = _first(_CODE, text)
    status = _first(_STATUS, text)
    said = " ".join(filter(None, (code, status and f"({status})" if code else status)))
    detail = f"The server said {said}." if said else None
    if code in _OF_OBJECT:
        return ObjectError(_OF_OBJECT[code])
    if code == "NoSuchBucket" or (code == "ContainerNotFound"):
        return WalError(f'there is no bucket "{root}"', detail=detail, hint=_elsewhere(scheme))
    if isinstance(error, FileNotFoundError):
        return ObjectError("it is no longer there")
    if kind == "PreconditionError":
        return ObjectError("it was changed while it was read")
    if kind in ("PermissionDeniedError", "UnauthenticatedError") or status in ("401", "403"):
        return WalError(f'permission denied for "{path}"', detail=detail, hint=_HINTS[scheme])
    if "credential" in text.lower() or "169.254." in text or "metadata" in text.lower():
        return WalError(
            f'there are no credentials for "{root}"', detail="None were found, or none could be obtained.",
            hint=_HINTS[scheme],
        )  # fmt: skip
    if status in ("301", "307") or "redirect" in text.lower():
        return WalError(
            f'"{root}" is in another region', detail=detail, hint="AWS_REGION names the region of the bucket."
        )
    return WalError(
        f'could not read "{path}"', detail=detail or _reason(text),
        hint=f"{_elsewhere(scheme)} WALPROOF_OBJECT_STORE_TIMEOUT is how long a request is repeated.",
    )  # fmt: skip


def _reason(text: str) -> str:
    """Why there was no answer, as far as this can be told without the library's own words."""
    lower = text.lower()
    for sign, reason in (
        ("connection refused", "The connection was refused."),
        ("dns error", "The server's name could not be resolved."),
        ("timed out", "There was no answer in time."),
        ("timeout", "There was no answer in time."),
        ("certificate", "The server's certificate was not accepted."),
        ("connection reset", "The connection was broken off."),
        ("connection closed", "The connection was broken off."),
        ("unexpectedeof", "The connection was broken off."),
        ("incompletemessage", "The connection was broken off."),
        ("decoding response body", "The connection was broken off."),
    ):
        if sign in lower:
            return reason
    return "The server could not be asked, or its answer was not understood."


def _elsewhere(scheme: str) -> str:
    if scheme == "s3":
        return "AWS_ENDPOINT_URL names a server that speaks S3 and is not AWS."
    return "The name before the first slash is the bucket's."


def _first(pattern: re.Pattern[str], text: str) -> str | None:
    match = pattern.search(text)
    return match[1] if match else None
