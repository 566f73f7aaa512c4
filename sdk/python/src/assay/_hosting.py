"""Background work of a session: renews its lease, and answers its calls of host functions.

It is asynchronous for both clients: the synchronous client runs it in an event loop in a thread.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ._calls import JSON, Call, segment
from ._errors import APIError, AssayError, ConflictError, NotFoundError
from ._functions import Functions, error_of, value_of
from ._units import Deadline

if TYPE_CHECKING:
    from ._async._transport import AsyncTransport

AT_ONCE = 64
"""Calls of one session that are answered at once; others wait."""

REMEMBERED = 4096
"""Number of remembered calls: a reopened stream repeats its calls."""

FAREWELL = 5.0
"""Seconds for ending an abandoned session."""


class Host:
    """Keeps one session alive and answers its calls, until it is stopped or the session has ended."""

    def __init__(self, id: str, functions: Functions, lease: float) -> None:
        self.id = id
        self.functions = functions
        self.lease = lease  # seconds; 0: none
        self.over = False  # the session has ended
        self.ending = False  # the session is to be ended, too, because it was abandoned
        self.loop: asyncio.AbstractEventLoop | None = None
        self.task: Any = None  # a task, or a future of a thread
        self._calls: OrderedDict[int, bytes | None] = OrderedDict()  # by number, with answers that could not be sent
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def needed(self) -> bool:
        """Whether there is work to do."""
        return not self.over and (bool(self.functions) or self.lease > 0)

    @property
    def running(self) -> bool:
        """Whether the work is being done."""
        return self.task is not None and not self.task.done() and self.loop is not None and not self.loop.is_closed()

    def changed(self) -> None:
        """Wakes it for new functions, from any thread."""
        loop, wake = self.loop, getattr(self, "_wake", None)
        if loop is not None and wake is not None:
            try:
                loop.call_soon_threadsafe(wake.set)
            except RuntimeError:
                pass  # the loop is closed; the next call starts the host again

    def abandon(self) -> None:
        """Ends the host and the abandoned session, without waiting."""
        self.ending = True
        loop, task = self.loop, self.task
        if loop is not None and task is not None:
            try:
                loop.call_soon_threadsafe(task.cancel)
            except RuntimeError:
                pass  # the loop is closed; the session ends by its lease

    async def run(self, transport: AsyncTransport) -> None:
        """Does the work, in the running loop."""
        self._wake, self._room = asyncio.Event(), asyncio.Semaphore(AT_ONCE)
        pause = 0.1
        try:
            while self.needed:
                try:
                    await (self._listen(transport) if self.functions else self._keep(transport))
                    pause = 0.1
                except (NotFoundError, ConflictError):
                    self.over = True
                except Exception:  # the fleet is unavailable or its answer is wrong: there will still be calls
                    pause = min(pause * 2, 5.0)
                if not self.over:
                    await asyncio.sleep(pause)
        finally:
            await self._end(transport)

    async def _end(self, transport: AsyncTransport) -> None:
        for task in list(self._tasks):
            task.cancel()
        if self.ending and not self.over:
            try:
                await transport.send(Call("DELETE", self._path(), once=True), Deadline(FAREWELL))
            except AssayError:
                pass  # it ends by its lease

    def _path(self, end: str = "") -> str:
        return f"/v1/sessions/{segment(self.id)}{end}"

    async def _keep(self, transport: AsyncTransport) -> None:
        woken = asyncio.ensure_future(self._wake.wait())
        try:
            # Not asyncio.wait_for: before Python 3.12 it loses a cancellation that comes at the same moment as the
            # wake-up.
            await asyncio.wait({woken}, timeout=self.lease / 3)
        finally:
            woken.cancel()
        if self._wake.is_set():
            self._wake.clear()
        else:
            await transport.send(Call("POST", self._path("/keepalive")))

    async def _listen(self, transport: AsyncTransport) -> None:
        """Answers calls while the stream is open. The open stream also renews the lease."""
        async for kind, data in transport.events(Call("GET", self._path("/events"), wait=30.0)):
            if kind == "ended":
                self.over = True
                return
            if kind == "call":
                self._hear(transport, data)

    def _hear(self, transport: AsyncTransport, call: Mapping[str, Any]) -> None:
        number = int(call["call"])
        if number in self._calls:
            body = self._calls[number]
            if body is not None:
                self._start(self._send(transport, number, body))
            return
        self._calls[number] = None
        while len(self._calls) > REMEMBERED:
            self._calls.popitem(last=False)
        self._start(self._answer(transport, number, call))

    def _start(self, work: Any) -> None:
        task: asyncio.Task[None] = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _answer(self, transport: AsyncTransport, number: int, call: Mapping[str, Any]) -> None:
        async with self._room:
            ok, value = await self.functions.call(self.id, call)
            try:
                body = value_of(number, value) if ok else error_of(number, value)
            except TypeError as e:
                body = error_of(number, e)
            try:
                await self._send(transport, number, body)
            except APIError as e:  # refused, such as a value that is too large
                await self._send(transport, number, error_of(number, e))

    async def _send(self, transport: AsyncTransport, number: int, body: bytes) -> None:
        """Sends an answer, and repeats it if needed: the first one counts. APIError if it is refused."""
        self._calls[number] = None
        try:
            await transport.send(Call("POST", self._path("/answers"), headers={"Content-Type": JSON}, body=body))
        except (NotFoundError, ConflictError):
            pass  # it was answered, or no longer waits
        except APIError as e:
            if not e.passing:
                raise
            self._calls[number] = body
        except AssayError:
            self._calls[number] = body  # the fleet is unavailable: afterwards the stream repeats the call
