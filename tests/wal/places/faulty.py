"""A proxy before the S3 server that answers some requests as servers and networks do on a bad day."""

from __future__ import annotations

import http.client
import re
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from tests.wal.places.server import KEY_ID, S3


class Fault(Enum):
    """What happens to an answer."""

    SLOW_DOWN = "503 SlowDown"
    CUT = "the connection breaks in the middle of the body"
    SHORT = "the body is half as long, and its header says so"
    DENIED = "403, with the key's id and the signed text in the message"
    ARCHIVED = "403 InvalidObjectState"
    CHANGED = "another ETag is asked for than there is"
    UNQUOTED = "a listing has ETags without quotes, as Azure's"


Plan = Callable[[str, int], Fault | None]
"""By path of the request (with its query), and how often it was asked for, from 0."""


@dataclass
class Proxy:
    """A proxy that runs."""

    port: int
    asked: dict[str, int] = field(default_factory=dict)
    """Number of requests by path."""
    objects: int = 0
    """Requests for objects."""


_ERROR = (
    "<?xml version='1.0'?><Error><Code>{code}</Code><Message>no</Message>"
    "<AWSAccessKeyId>{key}</AWSAccessKeyId>"
    "<StringToSign>AWS4-HMAC-SHA256 X-Amz-Signature=1</StringToSign></Error>"
)
_STATUS = {
    Fault.SLOW_DOWN: (503, "SlowDown"), Fault.DENIED: (403, "AccessDenied"),
    Fault.ARCHIVED: (403, "InvalidObjectState"), Fault.CHANGED: (412, "PreconditionFailed"),
}  # fmt: skip


@contextmanager
def faulty(server: S3, plan: Plan) -> Iterator[Proxy]:
    """Run the proxy."""
    lock = threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            with lock:
                count = proxy.asked.get(self.path, 0)
                proxy.asked[self.path] = count + 1
                proxy.objects += "list-type" not in self.path
            fault = plan(self.path, count) if self.command == "GET" else None
            if fault in _STATUS:
                status, code = _STATUS[fault]
                self._answer(status, {}, _ERROR.format(code=code, key=KEY_ID).encode())
                return
            upstream = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
            upstream.request(self.command, self.path, headers=dict(self.headers))
            answer = upstream.getresponse()
            body = answer.read()
            upstream.close()
            names = ("Content-Type", "ETag", "Last-Modified", "Content-Range", "Content-Length")
            headers = {name: answer.headers[name] for name in names if name in answer.headers}
            if self.command == "HEAD":
                self._answer(answer.status, headers, b"")
            elif fault is Fault.CUT:
                self._answer(answer.status, headers, body[: len(body) // 2])
                self.close_connection = True
                self.connection.shutdown(socket.SHUT_RDWR)
            elif fault is Fault.SHORT:
                half = body[: len(body) // 2]
                self._answer(answer.status, headers | {"Content-Length": str(len(half))}, half)
            elif fault is Fault.UNQUOTED:
                bare = re.sub(
                    rb"<ETag>(?:&quot;|&#34;|\")([^<]*?)(?:&quot;|&#34;|\")</ETag>", rb"<ETag>\1</ETag>", body
                )
                assert bare != body or b"<ETag>" not in body
                self._answer(answer.status, headers | {"Content-Length": str(len(bare))}, bare)
            else:
                self._answer(answer.status, headers, body)

        do_HEAD = do_GET

        def _answer(self, status: int, headers: dict[str, str], body: bytes) -> None:
            self.send_response(status)
            for name, value in ({"Content-Length": str(len(body))} | headers).items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    class Listener(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, *_: object) -> None:
            pass  # a client that was stopped leaves its answer

    with Listener(("127.0.0.1", 0), Handler) as listener:
        proxy = Proxy(listener.server_port)
        thread = threading.Thread(target=listener.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield proxy
        finally:
            listener.shutdown()
            thread.join()
