"""Host functions: code in a session calls them, and this process answers."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import keyword
import threading
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, TypeAlias, cast

from ._calls import encode
from ._errors import AssayError
from .models import to_json

HostFunction: TypeAlias = "Callable[..., Any]"
"""A callable, synchronous or not. JSON must be able to represent its arguments and its value."""

ANY = "*"
"""In policy.callbacks.allow: any function of the client."""

LARGEST = 16 << 20
"""Most bytes of an answer."""

MESSAGE = 8000
"""Most characters of an error that is raised in the session."""

_answering: contextvars.ContextVar[frozenset[str]] = contextvars.ContextVar("assay_answering", default=frozenset())


def answering(session: str) -> bool:
    """Whether the current code answers a call of that session, which waits for it."""
    return session in _answering.get()


class Functions:
    """The functions of one session, by name. It may be used by several threads."""

    def __init__(self, given: Mapping[str, HostFunction] | Iterable[HostFunction] | None, allowed: list[str]) -> None:
        self._allowed = allowed
        self._table: dict[str, HostFunction] = {}
        self.waiting: list[str] = []  # names that the session does not have yet
        self.context: contextvars.Context | None = None  # of the caller that runs code
        if isinstance(given, Mapping):
            for name, f in cast("Mapping[str, HostFunction]", given).items():
                self.add(f, name)
        else:
            for f in given or ():
                self.add(f, None)

    def add(self, f: HostFunction, name: str | None) -> None:
        """Registers a function, under its own name or another.

        TypeError if it is not callable, ValueError if its name is invalid or not allowed by the policy.
        """
        if not callable(f):
            raise TypeError(f"functions: {f!r:.80} cannot be called")
        name = str(getattr(f, "__name__", "")) if name is None else name
        if not (name.isascii() and name.isidentifier()) or keyword.iskeyword(name) or len(name) > 200:
            raise ValueError(f"functions: {name!r:.80} is not a name that code can call: give one by name=")
        if ANY not in self._allowed and name not in self._allowed:
            raise ValueError(f"functions: policy.callbacks.allow does not have {name!r}")
        if name not in self._table and len(self._table) >= 100:
            raise ValueError("functions: a session has at most 100")
        if name not in self._table:
            self.waiting.append(name)
        self._table[name] = f

    def have(self, names: Iterable[str]) -> None:
        """Marks these names as known to the session."""
        known = set(names)
        self.waiting = [name for name in self.waiting if name not in known]

    def keep(self, names: Iterable[str]) -> None:
        """Drops all functions except these."""
        left = set(names)
        self._table = {name: f for name, f in self._table.items() if name in left}
        self.waiting = [name for name in self.waiting if name in left]

    def names(self) -> list[str]:
        return list(self._table)

    def copy(self) -> Functions:
        """The same functions, for a copy of the session."""
        other = Functions(None, self._allowed)
        other._table, other.waiting = dict(self._table), list(self.waiting)
        return other

    def __bool__(self) -> bool:
        return bool(self._table)

    async def call(self, session: str, call: Mapping[str, Any]) -> tuple[bool, Any]:
        """Calls a function in the context of the caller that runs code. Returns whether it returned, and its value
        or exception.

        Asynchronous functions run in this loop, others each in a thread.
        """
        f = self._table.get(call["name"])
        if f is None:
            return False, AssayError("the client has no function of this name")
        context = (self.context or contextvars.copy_context()).copy()
        context.run(_answering.set, context.get(_answering, frozenset[str]()) | {session})
        args: list[Any] = call.get("args") or []
        kwargs: dict[str, Any] = call.get("kwargs") or {}
        if asynchronous(f):
            return await in_task(context, lambda: f(*args, **kwargs))
        ok, value = await in_thread(lambda: context.run(f, *args, **kwargs))
        return await in_task(context, lambda: value) if ok and inspect.isawaitable(value) else (ok, value)


def asynchronous(f: HostFunction) -> bool:
    return inspect.iscoroutinefunction(f) or inspect.iscoroutinefunction(getattr(f, "__call__", None))  # noqa: B004


async def in_task(context: contextvars.Context, work: Callable[[], Awaitable[Any]]) -> tuple[bool, Any]:
    """Awaits something in a task of its own, so that its exceptions do not reach the loop."""

    async def run() -> tuple[bool, Any]:
        try:
            return True, await work()
        except (asyncio.CancelledError, GeneratorExit):
            raise
        except BaseException as e:
            return False, e

    task = context.run(asyncio.ensure_future, run())
    try:
        await asyncio.wait({task})
    except asyncio.CancelledError:
        task.cancel()
        raise
    return (False, asyncio.CancelledError()) if task.cancelled() else task.result()


async def in_thread(work: Callable[[], Any]) -> tuple[bool, Any]:
    """The value or exception of work in a daemon thread, which does not keep the process from ending."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[tuple[bool, Any]] = loop.create_future()

    def settle(out: tuple[bool, Any]) -> None:
        if not done.done():
            done.set_result(out)

    def run() -> None:
        try:
            out = True, work()
        except BaseException as e:
            out = False, e
        try:
            loop.call_soon_threadsafe(settle, out)
        except RuntimeError:
            pass  # the loop is closed: no caller waits for it

    threading.Thread(target=run, name="assay-function", daemon=True).start()
    return await done


def value_of(call: int, value: Any) -> bytes:
    """The answer to a call. TypeError names values that JSON cannot represent."""
    try:
        body = encode({"call": call, "value": to_json(value)})
    except (TypeError, ValueError, RecursionError) as e:
        raise TypeError(f"the function returned what JSON cannot have: {e}") from e
    if len(body) > LARGEST:
        raise TypeError(f"the function returned {len(body)} bytes of JSON; a session takes 16 MiB")
    return body


def error_of(call: int, e: BaseException) -> bytes:
    """The answer to a call whose function raised."""
    try:
        text = str(e)
    except Exception:
        text = ""
    kind = type(e).__name__
    if not isinstance(e, AssayError):
        text = f"{kind}: {text}" if text else kind
    return encode({"call": call, "error": text[:MESSAGE].encode("utf-8", "replace").decode()})
