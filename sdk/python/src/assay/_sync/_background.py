"""Background work of sessions, in an event loop in one thread, for all sessions of a client."""

from __future__ import annotations

import asyncio
import concurrent.futures
import os
import threading

import httpx

from .._async._transport import AsyncTransport
from .._forking import after_fork
from .._hosting import FAREWELL, Host
from ._submit import quiet, turn
from ._transport import Transport


class Background:
    """Runs hosts of sessions. The first host starts the thread. In the child of a fork there is none: the parent's
    thread continues to keep its sessions and to answer their calls."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._lock = threading.Lock()
        self._running: tuple[asyncio.AbstractEventLoop, AsyncTransport] | None = None
        after_fork(self)

    def forked(self) -> None:
        """Called in the child of a fork: the thread is the parent's."""
        self._lock, self._running = threading.Lock(), None

    def ensure(self, host: Host) -> None:
        """Starts a host, unless it has nothing to do or runs already. In the child of a fork, the parent's hosts
        count as running."""
        if not host.needed or host.running:
            return
        with self._lock:
            if host.running:
                return
            if self._running is None:
                self._running = self._start()
            host.loop, transport = self._running
            host.task = asyncio.run_coroutine_threadsafe(host.run(transport), host.loop)

    def _start(self) -> tuple[asyncio.AbstractEventLoop, AsyncTransport]:
        loop = asyncio.new_event_loop()
        threading.Thread(target=turn, args=(loop, os.getpid()), name="assay-sessions", daemon=True).start()
        mock = self._transport.mock
        transport = AsyncTransport(self._transport.config, mock if isinstance(mock, httpx.AsyncBaseTransport) else None)
        return loop, transport

    def stop(self, host: Host) -> None:
        """Ends a host, without waiting."""
        if host.task is not None and self._running is not None:
            host.task.cancel()

    def close(self) -> None:
        """Ends the thread."""
        with self._lock:
            running, self._running = self._running, None
        if running is None:
            return
        loop, transport = running

        async def end() -> None:
            tasks = asyncio.all_tasks() - {asyncio.current_task()}
            for task in tasks:
                task.cancel()
            if tasks:
                await asyncio.wait(tasks, timeout=FAREWELL)
            await transport.aclose()

        try:
            asyncio.run_coroutine_threadsafe(end(), loop).result(2 * FAREWELL)
        except (TimeoutError, concurrent.futures.TimeoutError):
            pass
        quiet(lambda: loop.call_soon_threadsafe(loop.stop))
