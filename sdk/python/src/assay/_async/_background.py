"""Background work of sessions, as tasks of the loop that uses them."""

from __future__ import annotations

import asyncio

from .._hosting import Host
from ._transport import AsyncTransport


class AsyncBackground:
    """Runs hosts of sessions, each as a task of the loop in which the session is used."""

    def __init__(self, transport: AsyncTransport) -> None:
        self._transport = transport

    def ensure(self, host: Host) -> None:
        """Starts a host, unless it has nothing to do or runs already."""
        if not host.needed or host.running:
            return
        host.loop = asyncio.get_running_loop()
        host.task = host.loop.create_task(host.run(self._transport))

    async def stop(self, host: Host) -> None:
        """Ends a host, without waiting for functions that run in threads."""
        task = host.task
        if task is None or host.loop is None or not host.running:
            return
        if host.loop is not asyncio.get_running_loop():
            host.loop.call_soon_threadsafe(task.cancel)
            return
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    async def aclose(self) -> None:
        """Does nothing: all work ends when the hosts are stopped."""
