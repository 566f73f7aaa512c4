"""Waits that are canceled at the very moment at which they end: that counts, with every version of Python."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from assay._async._concurrency import Queue, Turn
from assay._functions import Functions
from assay._hosting import Host


def queue() -> tuple[Coroutine[Any, Any, Any], Callable[[], Any]]:
    q: Queue[int] = Queue(1)
    return q.get(10), lambda: q._queue.put_nowait(1)


def turn() -> tuple[Coroutine[Any, Any, Any], Callable[[], Any]]:
    t = Turn()
    t._lock()._locked = True  # type: ignore[attr-defined]
    return t.take(10), t.give


def host() -> tuple[Coroutine[Any, Any, Any], Callable[[], Any]]:
    h = Host("s", Functions(None, []), 30)
    h._wake = asyncio.Event()
    return h._keep(None), h._wake.set  # type: ignore[arg-type]


@pytest.mark.parametrize("wait", [queue, turn, host])
def test_canceled_as_it_ends(wait: Callable[[], tuple[Coroutine[Any, Any, Any], Callable[[], Any]]]) -> None:
    async def main() -> None:
        waiting, end = wait()
        task = asyncio.get_running_loop().create_task(waiting)
        for _ in range(3):
            await asyncio.sleep(0)
        assert not task.done()
        end()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())


def test_queue() -> None:
    async def main() -> None:
        q: Queue[int] = Queue(1)
        with pytest.raises(TimeoutError):
            await q.get(0.01)
        await q.put(1)
        assert await q.get(0) == 1
        taking = asyncio.get_running_loop().create_task(q.get(10))
        await asyncio.sleep(0)
        await q.put(2)
        assert await taking == 2

    asyncio.run(main())
