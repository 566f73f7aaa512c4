"""Concurrency with threads. The module of the same name in _async does the same with asyncio."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Generic, TypeVar

from .._forking import after_fork

T = TypeVar("T")

CANCELED: tuple[type[BaseException], ...] = (KeyboardInterrupt, SystemExit)
"""Exceptions that end a wait from outside."""


class _Everywhere:
    """Owner of connections that all threads share."""


_EVERYWHERE = _Everywhere()


def context() -> object:
    """The owner of connections: the same for all threads."""
    return _EVERYWHERE


def ended(context: Any) -> bool:
    """Whether the owner's connections are unusable: never."""
    return False


def sleep(seconds: float) -> None:
    time.sleep(seconds)


def finish(function: Callable[..., Any], *args: Any) -> None:
    """Runs a function to its end."""
    function(*args)


class Changed:
    """A condition that threads wait for. Holding it excludes other holders."""

    def __init__(self) -> None:
        self._condition = threading.Condition()

    def __enter__(self) -> None:
        self._condition.__enter__()

    def __exit__(self, *_: object) -> None:
        self._condition.__exit__(None, None, None)

    def notify(self) -> None:
        """Makes all waiting threads check again."""
        self._condition.notify_all()

    def until(self, true: Callable[[], bool], timeout: float) -> bool:
        """Waits until a function returns true; False if it does not within that many seconds."""
        return self._condition.wait_for(true, timeout)


class Queue(Generic[T]):
    """A bounded queue between threads. A put does not wait after close."""

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
        """The next item; TimeoutError if none comes within that many seconds."""
        try:
            return self._queue.get(timeout=timeout)
        except queue.Empty:
            raise TimeoutError from None

    def empty(self) -> bool:
        return self._queue.empty()

    def close(self) -> None:
        self._closed = True


class Turn:
    """A lock with a timeout, for all threads."""

    def __init__(self) -> None:
        self.forked()
        after_fork(self)

    def forked(self) -> None:
        """Called in the child of a fork, which has no other threads."""
        self._lock = threading.Lock()

    def take(self, timeout: float | None) -> bool:
        """Waits for the turn; False if it does not come within that many seconds."""
        return self._lock.acquire(timeout=-1 if timeout is None else timeout)

    def give(self) -> None:
        self._lock.release()


class Tasks:
    """Threads that end soon after the code that started them, and never keep the process from ending."""

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
        """Makes the threads end at their next check, without waiting for outstanding answers."""
        self._stop.set()


def each(items: Iterable[T]) -> Iterator[T]:
    """An iterator over the items."""
    return iter(items)
