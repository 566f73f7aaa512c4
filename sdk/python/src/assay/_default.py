"""The functions of the package itself: methods of a client that the first call creates from the environment."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from ._forking import after_fork
from ._sync._client import Client


class _Default:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._client: Client | None = None
        after_fork(self)

    def forked(self) -> None:
        self._lock = threading.Lock()

    def get(self) -> Client:
        with self._lock:
            if self._client is None:
                self._client = Client()
            return self._client


_default = _Default()


def default_client() -> Client:
    """The client of the package's own functions. The first call creates it from ASSAY_URL and ASSAY_TOKEN."""
    return _default.get()


if TYPE_CHECKING:
    # The same arguments and docstrings.
    _of = Client()
    run = _of.run
    submit = _of.submit
    map = _of.map
    grade = _of.grade
else:

    def _method(name: str) -> Any:
        import functools

        method = getattr(Client, name)

        @functools.wraps(method)
        def function(*args: Any, **kwargs: Any) -> Any:
            return getattr(default_client(), name)(*args, **kwargs)

        return function

    run, submit, map, grade = (_method(name) for name in ("run", "submit", "map", "grade"))
