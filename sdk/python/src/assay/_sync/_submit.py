"""Jobs whose results come as futures, all from an event loop in one thread."""

from __future__ import annotations

import asyncio
import concurrent.futures
import os
import threading
from collections.abc import Callable, Generator
from typing import Any

import httpx

from .._async._submit import AsyncSubmitter
from .._async._transport import AsyncTransport
from .._calls import encode
from .._forking import after_fork
from .._result import Result
from ._transport import Transport


class Future(concurrent.futures.Future[Result]):
    """The future result of a job. result() raises all errors except the program's; a coroutine may await it.

    cancel() cancels the job, even while it runs.
    """

    def __await__(self) -> Generator[Any, None, Result]:
        return asyncio.wrap_future(self).__await__()


class Submitter:
    """Submits jobs by an event loop in a thread. The first job starts it, and so does the first job in the child of
    a fork."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._lock = threading.Lock()
        self._running: tuple[asyncio.AbstractEventLoop, AsyncSubmitter, AsyncTransport] | None = None
        after_fork(self)

    def forked(self) -> None:
        """Called in the child of a fork: the thread is the parent's."""
        self._lock, self._running = threading.Lock(), None

    def submit(self, spec: dict[str, Any]) -> Future:
        """Submits a job."""
        self._transport.check_open()
        encode(spec)  # values that JSON cannot represent raise here
        loop, submitter, _ = self._loop()
        future = Future()

        def start() -> None:
            if not future.cancelled():
                connect(loop, submitter.submit(spec), future)

        loop.call_soon_threadsafe(start)
        return future

    def _loop(self) -> tuple[asyncio.AbstractEventLoop, AsyncSubmitter, AsyncTransport]:
        with self._lock:
            if self._running is None:
                loop = asyncio.new_event_loop()
                threading.Thread(target=turn, args=(loop, os.getpid()), name="assay-futures", daemon=True).start()
                mock = self._transport.mock
                transport = AsyncTransport(
                    self._transport.config, mock if isinstance(mock, httpx.AsyncBaseTransport) else None
                )
                self._running = loop, AsyncSubmitter(transport), transport
            return self._running

    def stop(self) -> None:
        """Cancels all open futures and their jobs."""
        with self._lock:
            running, self._running = self._running, None
        if running is None:
            return
        loop, submitter, transport = running

        async def end() -> None:
            await submitter.stop()
            await transport.aclose()

        try:
            asyncio.run_coroutine_threadsafe(end(), loop).result(30)
        except (TimeoutError, concurrent.futures.TimeoutError):
            pass  # the fleet is unavailable: jobs end by their lease
        loop.call_soon_threadsafe(loop.stop)


def turn(loop: asyncio.AbstractEventLoop, pid: int) -> None:
    """Runs a loop until it is stopped."""
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
    finally:
        if os.getpid() == pid:
            loop.close()


def connect(loop: asyncio.AbstractEventLoop, inner: asyncio.Future[Result], outer: Future) -> None:
    """Connects two futures: each follows the other's end."""

    def ended(f: asyncio.Future[Result]) -> None:
        try:
            if f.cancelled():
                if outer.cancel():
                    outer.set_running_or_notify_cancel()
            elif (error := f.exception()) is not None:
                outer.set_exception(error)
            else:
                outer.set_result(f.result())
        except concurrent.futures.InvalidStateError:
            pass  # it was canceled meanwhile

    def canceled(f: concurrent.futures.Future[Result]) -> None:
        if f.cancelled():
            quiet(lambda: loop.call_soon_threadsafe(inner.cancel))

    inner.add_done_callback(ended)
    outer.add_done_callback(canceled)


def quiet(function: Callable[[], object]) -> None:
    try:
        function()
    except RuntimeError:
        pass  # the loop is closed: no work is left
