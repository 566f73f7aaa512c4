"""An executor of concurrent.futures on a fleet, for code that expects one."""

from __future__ import annotations

import concurrent.futures
import threading
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, cast

from ._jobs import PolicyLike, job
from ._result import Result
from ._sync._client import Client
from ._sync._submit import Future
from ._units import Deadline, Seconds


class Executor(concurrent.futures.Executor):
    """Runs Python code, given as text, on a fleet: submit("print(x)", x=1) has the code's variables as keywords.

    It accepts no functions. A sandbox has none of the caller's modules. A returned object would have to be
    unpickled here, which would run code of the sandbox. Futures have a Result; a failed program has one, too.

    Args:
        client: the client to use; else one is created from the environment, and closed at the shutdown.
        policy, image: of every job.
    """

    def __init__(
        self, client: Client | None = None, *, policy: PolicyLike | None = None, image: str | None = None
    ) -> None:
        self._client = client if client is not None else Client()
        self._own = client is None
        self._policy, self._image = policy, image
        self._lock = threading.Lock()
        self._over = False
        self._open: set[Future] = set()

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Submits code, with its variables as keywords.

        TypeError for a function, or for positional arguments. RuntimeError after the shutdown.
        """
        if args:
            raise TypeError(
                "code has no positional arguments: give its variables by name, as in submit('print(x)', x=1)"
            )
        spec = job(fn, variables=kwargs or None, policy=self._policy, image=self._image)
        with self._lock:
            if self._over:
                raise RuntimeError("cannot schedule new futures after shutdown")
            future = self._client.submit(spec)
            self._open.add(future)
        future.add_done_callback(self._forget)
        return future

    def _forget(self, future: concurrent.futures.Future[Result]) -> None:
        with self._lock:
            self._open.discard(cast("Future", future))

    def map(  # pyright: ignore[reportIncompatibleMethodOverride]
        self,
        fn: Any,
        *iterables: Iterable[Mapping[str, Any]],
        timeout: Seconds | None = None,
        chunksize: int = 1,
        **_: Any,
    ) -> Iterator[Result]:
        """The results of the same code, run once for each mapping of variables, in their order.

        For many programs, Client.map is better: it takes items as there is room.
        timeout is in seconds, or a duration such as "5s".
        """
        if len(iterables) != 1:
            raise TypeError("map takes one iterable, of variables: map('print(x)', [{'x': 1}, {'x': 2}])")
        return self._each(fn, iterables[0], timeout)

    def _each(self, code: str, variables: Iterable[Mapping[str, Any]], timeout: Seconds | None) -> Iterator[Result]:
        deadline = Deadline(timeout)
        futures = [self.submit(code, **v) for v in variables]

        def results() -> Iterator[Result]:
            try:
                while futures:
                    yield futures.pop(0).result(None if deadline.given is None else deadline.left(deadline.given))
            finally:
                for future in futures:
                    future.cancel()

        return results()

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Accepts no more code. With wait it returns once all futures are done; with cancel_futures it cancels them."""
        with self._lock:
            self._over = True
            left = list(self._open)
        if cancel_futures:
            for future in left:
                future.cancel()
        if wait:
            concurrent.futures.wait(left)
        if self._own and wait:
            self._client.close()
