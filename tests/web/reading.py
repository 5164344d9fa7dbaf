"""A reader of the page without a browser: one request a connection."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from http.client import HTTPConnection
from typing import Any
from urllib.parse import parse_qs, urlsplit


@dataclass(frozen=True)
class Answer:
    """What came back."""

    status: int
    headers: Mapping[str, str]
    """By names in lower case."""
    text: str

    @property
    def data(self) -> Any:
        """The text as JSON."""
        return json.loads(self.text)


class Reader:
    """Asks with the token as a bearer, unless told otherwise."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        assert parts.hostname is not None
        assert parts.port is not None
        self.url = url
        self.host, self.port = parts.hostname, parts.port
        (self.token,) = parse_qs(parts.query)["token"]

    def get(
        self, path: str, headers: Mapping[str, str] | None = None, *, method: str = "GET", knows: bool = True,
        body: str = "",
    ) -> Answer:  # fmt: skip
        """One request. ``headers`` may replace Host."""
        connection = HTTPConnection(self.host, self.port, timeout=30)
        try:
            given = dict(headers or {})
            if knows:
                given.setdefault("Authorization", f"Bearer {self.token}")
            connection.putrequest(method, path, skip_host="Host" in given)
            for name, text in given.items():
                connection.putheader(name, text)
            if body:
                connection.putheader("Content-Type", "application/x-www-form-urlencoded")
                connection.putheader("Content-Length", str(len(body)))
            connection.endheaders(body.encode() or None)
            answer = connection.getresponse()
            found = {name.lower(): text for name, text in answer.getheaders()}
            return Answer(answer.status, found, answer.read().decode())
        finally:
            connection.close()
