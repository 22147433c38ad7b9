"""Recording while a block of Python runs.

*Why another process:* recording needs rights that a notebook should not have. The program
``unhitch`` has them where it was given them (``setcap``, ``sudo``), and this process needs none.
"""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
import threading
import time
from types import TracebackType

from ._errors import UnhitchError
from ._program import program
from ._trace import Trace, open

__all__ = ["Recording", "record"]

TO_BEGIN_S = 30.0
TO_END_S = 300.0


class Recording:
    """A recording of this machine for as long as a ``with`` block runs; see `record`."""

    def __init__(self, path: str, command: list[str]) -> None:
        self.path = path
        """The file."""
        self._command = command
        self._process: subprocess.Popen[str] | None = None
        self._said: list[str] = []
        self._listener: threading.Thread | None = None

    def __enter__(self) -> Recording:
        try:
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                text=True,
                errors="replace",
                # Ctrl-C in a terminal is for this process; it stops the recorder itself.
                start_new_session=True,
            )
        except OSError as error:
            raise UnhitchError(f"{self._command[0]}: {error.strerror}") from error
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()
        # The file appears when every buffer is open.
        give_up = time.monotonic() + TO_BEGIN_S
        while not os.path.exists(self.path):
            if self._process.poll() is not None or time.monotonic() > give_up:
                raise self._failure("the recording did not begin")
            time.sleep(0.005)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        where: TracebackType | None,
    ) -> None:
        status = self._stop()
        # An error of the block is more interesting than one of the recorder.
        if kind is None and (status != 0 or not os.path.exists(self.path)):
            raise self._failure("the recording was not written")

    def _listen(self) -> None:
        assert self._process is not None and self._process.stderr is not None
        for line in self._process.stderr:
            self._said.append(line.strip())

    def _stop(self) -> int:
        assert self._process is not None
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)
        try:
            status = self._process.wait(TO_END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            status = self._process.wait()
        if self._listener is not None:
            self._listener.join(5)
        return status

    def _failure(self, what: str) -> UnhitchError:
        self._stop()
        said = [line for line in self._said if line]
        return UnhitchError(f"{what}: {said[-1]}" if said else what)

    @property
    def messages(self) -> list[str]:
        """What the program printed."""
        return [line for line in self._said if line]

    @property
    def trace(self) -> Trace:
        """What was recorded, after the block."""
        if self._process is None or self._process.poll() is None:
            raise UnhitchError("the recording has not ended yet: use it after the with block")
        return open(self.path)


def record(
    path: str | os.PathLike[str] | None = None,
    *,
    using: str | os.PathLike[str] | None = None,
    options: list[str] | None = None,
) -> Recording:
    """Records the whole machine while a block runs::

        with unhitch.record("slow.hitch") as recording:
            work()
        print(recording.trace.why().text)

    The file must not exist yet; without ``path`` it is in a temporary folder. The program
    ``unhitch`` records (``using``, ``$UNHITCH`` or the one on ``PATH``); it needs the rights that
    docs/recording.md describes. ``options`` are further options of ``unhitch record``.
    """
    if path is None:
        path = os.path.join(tempfile.mkdtemp(prefix="unhitch-"), "recording.hitch")
    path = os.fspath(path)
    if os.path.exists(path):
        raise UnhitchError(f"{path}: exists already")
    return Recording(path, [program(using), "record", "-o", path, *(options or [])])
