"""Concurrency with asyncio. The module of the same name in _sync does the same with threads."""

from __future__ import annotations

import asyncio
import os
import weakref
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Iterable
from typing import Any, Generic, TypeVar

T = TypeVar("T")

CANCELED: tuple[type[BaseException], ...] = (asyncio.CancelledError,)
"""Exceptions that end a wait from outside."""


def context() -> object:
    """The owner of connections: the running loop."""
    return asyncio.get_running_loop()


def ended(context: Any) -> bool:
    """Whether the loop is closed, so that its connections are unusable."""
    return context.is_closed()


async def sleep(seconds: float) -> None:
    await asyncio.sleep(seconds)


_finishing: set[asyncio.Task[Any]] = set()


async def finish(function: Callable[..., Awaitable[Any]], *args: Any) -> None:
    """Runs a function to its end. If the waiting task is canceled meanwhile, it continues in the background."""

    async def run() -> None:
        await function(*args)

    task = asyncio.get_running_loop().create_task(run())
    _finishing.add(task)
    task.add_done_callback(_finishing.discard)
    await asyncio.shield(task)


class Changed:
    """A condition that tasks wait for. Holding it excludes other holders; it does not wait."""

    def __init__(self) -> None:
        self._waiters: set[asyncio.Future[None]] = set()

    async def __aenter__(self) -> None:
        pass

    async def __aexit__(self, *_: object) -> None:
        pass

    def notify(self) -> None:
        """Makes all waiting tasks check again."""
        for waiter in self._waiters:
            release(waiter)

    async def until(self, true: Callable[[], bool], timeout: float) -> bool:
        """Waits until a function returns true; False if it does not within that many seconds."""
        loop = asyncio.get_running_loop()
        end = loop.time() + timeout
        while not true():
            if loop.time() >= end:
                return False
            waiter = loop.create_future()
            self._waiters.add(waiter)
            # Not asyncio.wait_for: before Python 3.12 it loses a cancellation that comes at the same moment as the
            # result.
            timer = loop.call_at(end, release, waiter)
            try:
                await waiter
            finally:
                timer.cancel()
                self._waiters.discard(waiter)
        return True


def release(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)


class Queue(Generic[T]):
    """A bounded queue between tasks."""

    def __init__(self, size: int) -> None:
        self._queue: asyncio.Queue[T] = asyncio.Queue(size)
        self._closed = False

    async def put(self, item: T) -> None:
        if not self._closed:
            await self._queue.put(item)

    async def get(self, timeout: float) -> T:
        """The next item; TimeoutError if none comes within that many seconds."""
        if not self._queue.empty():
            return self._queue.get_nowait()
        # Not asyncio.wait_for, as in until.
        getting = asyncio.ensure_future(self._queue.get())
        try:
            await asyncio.wait({getting}, timeout=timeout)
        except asyncio.CancelledError:
            getting.cancel()
            raise
        if not getting.done() and getting.cancel():
            raise TimeoutError
        return await getting

    def empty(self) -> bool:
        return self._queue.empty()

    def close(self) -> None:
        self._closed = True


class Turn:
    """A lock with a timeout, for the tasks of a loop."""

    def __init__(self) -> None:
        self._locks: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock] = weakref.WeakKeyDictionary()

    def _lock(self) -> asyncio.Lock:
        return self._locks.setdefault(asyncio.get_running_loop(), asyncio.Lock())

    async def take(self, timeout: float | None) -> bool:
        """Waits for the turn; False if it does not come within that many seconds."""
        lock = self._lock()
        if timeout is None:
            return await lock.acquire()
        # Not asyncio.wait_for: before Python 3.12 it loses a cancellation that comes at the same moment as the
        # turn.
        taking = asyncio.ensure_future(lock.acquire())
        try:
            await asyncio.wait({taking}, timeout=timeout)
        except asyncio.CancelledError:
            if not taking.cancel():
                lock.release()
            raise
        return taking.done() or not taking.cancel()

    def give(self) -> None:
        self._lock().release()


class Tasks:
    """Tasks that end with the code that started them. In a forked process they do not exist."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()
        self._pid = os.getpid()
        self.stopped = False

    def start(self, function: Callable[..., Awaitable[Any]], *args: Any) -> None:
        async def run() -> None:
            await function(*args)

        task = asyncio.get_running_loop().create_task(run())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def sleep(self, seconds: float) -> bool:
        """Waits; False if the tasks were stopped meanwhile."""
        await asyncio.sleep(seconds)
        return not self.stopped

    async def stop(self) -> None:
        self.stopped = True
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def each(items: Iterable[T] | AsyncIterable[T]) -> AsyncIterator[T]:
    """The items of a synchronous or asynchronous iterable."""
    if isinstance(items, AsyncIterable):
        async for item in items:
            yield item
    else:
        for item in items:
            yield item
