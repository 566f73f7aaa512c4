"""Where what goes on beside sessions runs: in the loop of whoever uses them."""

from __future__ import annotations

import asyncio

from .._hosting import Host
from ._transport import AsyncTransport


class AsyncBackground:
    """Runs hosts of sessions, each as a task of the loop in which the session is used."""

    def __init__(self, transport: AsyncTransport) -> None:
        self._transport = transport

    def ensure(self, host: Host) -> None:
        """Has a host run, if there is something to do."""
        if not host.needed or host.running:
            return
        host.loop = asyncio.get_running_loop()
        host.task = host.loop.create_task(host.run(self._transport))

    async def stop(self, host: Host) -> None:
        """Ends a host; functions that run in threads are not waited for."""
        task = host.task
        if task is None or host.loop is None or not host.running:
            return
        if host.loop is not asyncio.get_running_loop():
            host.loop.call_soon_threadsafe(task.cancel)
            return
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    async def aclose(self) -> None:
        """Nothing is left here when the hosts are stopped."""
