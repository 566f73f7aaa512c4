"""What synchronous code needs of threads: the same as the other package of this name has for asyncio."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Generic, TypeVar

from .._forking import after_fork

T = TypeVar("T")

CANCELED: tuple[type[BaseException], ...] = (KeyboardInterrupt, SystemExit)
"""What ends a wait from outside."""


class _Everywhere:
    """Connections are shared by all threads."""


_EVERYWHERE = _Everywhere()


def context() -> object:
    """Whose connections may be used: all threads have the same."""
    return _EVERYWHERE


def ended(context: Any) -> bool:
    """Whether nobody can use its connections any more."""
    return False


def sleep(seconds: float) -> None:
    time.sleep(seconds)


class Queue(Generic[T]):
    """A bounded queue between threads. Who puts into one that was closed does not wait."""

    def __init__(self, size: int) -> None:
        self._queue: queue.Queue[T] = queue.Queue(size)
        self._closed = False

    def put(self, item: T) -> None:
        while not self._closed:
            try:
                self._queue.put(item, timeout=0.5)
                return
            except queue.Full:
                pass

    def get(self, timeout: float) -> T:
        """The next item; TimeoutError if there is none for so many seconds."""
        try:
            return self._queue.get(timeout=timeout)
        except queue.Empty:
            raise TimeoutError from None

    def empty(self) -> bool:
        return self._queue.empty()

    def close(self) -> None:
        self._closed = True


class Turn:
    """One at a time, of all threads."""

    def __init__(self) -> None:
        self.forked()
        after_fork(self)

    def forked(self) -> None:
        """Called in a child of a fork, in which no other thread is."""
        self._lock = threading.Lock()

    def take(self, timeout: float | None) -> bool:
        """Waits for the turn; False if it did not come within so many seconds."""
        return self._lock.acquire(timeout=-1 if timeout is None else timeout)

    def give(self) -> None:
        self._lock.release()


class Tasks:
    """Threads that end soon after whoever started them, and never keep the process from ending."""

    def __init__(self) -> None:
        self._stop = threading.Event()

    @property
    def stopped(self) -> bool:
        return self._stop.is_set()

    def start(self, function: Callable[..., Any], *args: Any) -> None:
        threading.Thread(target=function, args=args, name="assay", daemon=True).start()

    def sleep(self, seconds: float) -> bool:
        """Waits; False if the threads were stopped meanwhile."""
        return not self._stop.wait(seconds)

    def stop(self) -> None:
        """Has them end at their next look; it does not wait for answers that are under way."""
        self._stop.set()


def each(items: Iterable[T]) -> Iterator[T]:
    """Items, of whatever kind of iterable."""
    return iter(items)
