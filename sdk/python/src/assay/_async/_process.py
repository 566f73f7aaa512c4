"""A process in a sandbox."""

from __future__ import annotations

import signal as signals
from collections.abc import Sequence

from .._errors import Timeout
from .._processes import STAGED, Running, octets
from .._units import Deadline, Seconds
from ._concurrency import sleep
from ._operations import AsyncOperations


class AsyncProcess:
    """A command that runs in a sandbox, or has ended there: see Sandbox.spawn().

    Its output is kept until it is read, up to 64 MiB of each stream; then the command has to wait.
    """

    def __init__(self, operations: AsyncOperations, running: Running) -> None:
        self._operations = operations
        self._running = running

    def __repr__(self) -> str:
        return f"<assay process {self.argv[0]!r}, {'runs' if self.exit_code is None else self.exit_code}>"

    def __del__(self) -> None:
        self._operations.forget(self._running)

    @property
    def argv(self) -> Sequence[str]:
        """The words of the command."""
        return self._running.argv

    @property
    def exit_code(self) -> int | None:
        """The exit code as in subprocess: negative after a signal. None if its end is not known."""
        return self._running.code

    @property
    def timed_out(self) -> bool:
        """Whether its timeout ended it."""
        return bool(self._running.report.get("timed_out"))

    async def poll(self) -> int | None:
        """Its current exit code; None while it runs."""
        if self.exit_code is None:
            await self._operations.refresh(self._running)
        return self.exit_code

    async def wait(self, timeout: Seconds | None = None) -> int:
        """Waits for its end, and returns its exit code. Raises Timeout after that many seconds; the command
        continues."""
        deadline = Deadline(timeout)
        await self._operations.wait(self._running, deadline)
        if self.exit_code is None:
            raise Timeout(f"{self.argv[0]!r} runs on after {deadline.given} s")
        return self.exit_code

    async def read(self, wait: Seconds | None = None) -> tuple[bytes, bytes]:
        """Its output on stdout and stderr since the last read.

        Args:
            wait: seconds to wait for output or its end; by default it does not wait. Empty output after its end means
                that there is no more.
        """
        if wait is not None:
            await self._operations.wait(self._running, Deadline(wait, "wait"), output=True)
        return await self._operations.output(self._running)

    async def write(self, data: bytes | str) -> None:
        """Writes to its stdin. It waits while more than 16 MiB are unread.

        Raises:
            BrokenPipeError: it has ended, its stdin was closed, or it was spawned without one.
        """
        content = octets(data)
        for start in range(0, len(content), STAGED):
            await self._write(content[start : start + STAGED], close=False)

    async def close_stdin(self) -> None:
        """Closes its stdin. Does nothing if it has ended already."""
        try:
            await self._write(b"", close=True)
        except BrokenPipeError:
            pass

    async def _write(self, data: bytes, close: bool) -> None:
        op = {"do": "write", "process": self._running.id, "close": close}
        pause = 0.02
        while (await self._operations.give(op, data))["full"]:
            await sleep(pause)
            pause = min(2 * pause, 1.0)

    async def signal(self, number: int | signals.Signals) -> None:
        """Sends a signal to its process group. Does nothing if it has ended."""
        await self._operations.do({"do": "signal", "process": self._running.id, "signal": int(number)})

    async def terminate(self) -> None:
        """Sends SIGTERM."""
        await self.signal(15)

    async def kill(self) -> None:
        """Kills it with all of its processes."""
        await self._operations.do({"do": "kill", "process": self._running.id})
