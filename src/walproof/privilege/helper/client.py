"""Starts the helper, and asks it."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import tempfile
from pathlib import Path
from types import TracebackType

from walproof.privilege.environment import child_environment
from walproof.privilege.helper.requests import (
    ANSWER_BYTES,
    Answer,
    Refused,
    Request,
    decode_answer,
    encode_request,
)
from walproof.privilege.user import ServerUser

_PATIENCE_S = 60.0
"""The longest wait for an answer, and for the end: auditctl is given ten seconds for a call."""
NOT_ROOT = "walproof was not started as root"


def notes_folder() -> Path:
    """Where helpers keep what they have to undo. Root's folder does not outlive the machine's next start, nor
    does what has to be undone."""
    if os.geteuid() == 0:
        return Path("/run/walproof")
    return Path(tempfile.gettempdir()) / f"walproof-helper-{os.geteuid()}"


class RootHelper:
    """Context manager: a helper that acts for processes of ``user`` (None: ourselves).

    When the block ends, or this process, it undoes what it did and ends.
    """

    def __init__(self, user: ServerUser | None, notes: Path | None = None) -> None:
        self._uid = os.geteuid() if user is None else user.uid
        self._notes = notes_folder() if notes is None else notes

    def __enter__(self) -> RootHelper:
        # Packets keep their bounds; whoever has neither end cannot send any.
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._socket.settimeout(_PATIENCE_S)
        with theirs:
            # -P: without it, whatever lies in the current folder is imported first.
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "walproof.privilege.helper.process", str(self._uid),
                 str(self._notes)],
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env=child_environment(),
                # Its own session: a Ctrl-C on the terminal does not reach it.
                start_new_session=True,
                cwd="/",
            )  # fmt: skip
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._socket.close()
        # One that takes longer to undo what it did, does so by itself: a killed one would leave it done.
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_PATIENCE_S)

    @property
    def pid(self) -> int:
        """The helper's process."""
        return self._process.pid

    def ask(self, request: Request) -> Answer:
        """Send a request and wait for its answer. A helper that has ended refuses everything."""
        try:
            self._socket.sendall(encode_request(request))
            packet = self._socket.recv(ANSWER_BYTES)
        except OSError as error:
            # An answer that came later would be taken for that of the next request.
            self._socket.close()
            return Refused(f"the helper process does not answer: {error}")
        if not packet:
            return Refused("the helper process has ended")
        answer = decode_answer(packet)
        if isinstance(answer, Refused) and os.geteuid() != 0:
            return Refused(f"{answer.reason} ({NOT_ROOT})")
        return answer
