"""The caller's functions for code in a session. They may use the session while it waits for them.

A call and its answer are one exchange of a waiting session. If the function requests a variable, the answer is that
request. The calling code replies with a further call, until the function has returned.
"""

from __future__ import annotations

import ast
import contextvars
import itertools
import math
import queue
import threading
import weakref
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, cast

CALL = "_assay_call"
"""The host function that calls all others."""

PRELUDE = """
def _assay_bridge(call, names):
    # What code calls by these names later may be something else.
    error, dumps, failure, wrong = CallError, safe_json_dumps, Exception, TypeError
    kind, text, every, listing, mapping, evaluate, number = type, repr, all, list, dict, eval, float
    plain_kinds, starts = (str, int, bool, type(None)), str.startswith
    literals = {"__builtins__": {"set": set, "frozenset": frozenset}}
    found = __builtins__ if isinstance(__builtins__, dict) else __builtins__.__dict__
    classes = {n: c for n, c in found.items() if isinstance(c, type) and issubclass(c, Exception)}
    given = set(names)
    made = {}

    def plain(value):
        k = kind(value)
        if k in plain_kinds:
            return True
        if k is number:
            return value - value == 0
        if k is listing:
            return every(plain(v) for v in value)
        return k is mapping and every(kind(n) is plain_kinds[0] and plain(v) for n, v in value.items())

    def shown(value):
        return {"json": value} if plain(value) else {"repr": text(value)}

    def listed():
        out = []
        for name, value in listing(names.items()):
            if name in given or starts(name, "_") or made.get(name) is value:
                continue
            if kind(value).__name__ == "module" or kind(value) is kind(plain) and value.__name__ != "<lambda>":
                continue
            out.append(name)
        return out

    def taken(value):
        return value["json"] if "json" in value else evaluate(value["repr"], literals)

    def do(what, name, value):
        if what == "get":
            return shown(names[name]) if name in names and made.get(name) is not names[name] else None
        if what == "set":
            names[name] = taken(value)
            return None
        return listed()

    def raised(what):
        try:
            return classes[what["type"]](*what["args"])
        except failure:
            return None

    def make(name):
        def function(*args, **kwargs):
            state, what = call(name, listing(args), kwargs)
            while state == "ask":
                reply = do(*what[1:])
                try:
                    state, what = call(None, [what[0], reply], {})
                except (wrong, error):
                    state, what = call(None, [what[0], None if reply is None else {"repr": text(reply)[:100000]}], {})
            if state == "error":
                raise raised(what) or error(name + ": " + what["type"] + ": " + what["text"])
            return taken(what)

        function.__name__ = function.__qualname__ = name
        made[name] = names[name] = function

    def helper(obj):
        return dumps(obj, default=text)

    helper.__name__ = helper.__qualname__ = "safe_json_dumps"
    made["safe_json_dumps"] = names["safe_json_dumps"] = helper
    return make


_assay_make = _assay_bridge(_assay_call, globals())
"""


class Shown(NamedTuple):
    """Whether a value exists, and the value."""

    found: bool
    value: Any


def plain(value: Any) -> bool:
    """Whether JSON represents a value exactly."""
    kind = cast("type[Any]", type(value))
    if value is None or kind in (str, int, bool):
        return True
    if kind is float:
        return math.isfinite(value)
    if kind is list:
        return all(plain(v) for v in value)
    return kind is dict and all(type(k) is str and plain(v) for k, v in value.items())


def packed(value: Any) -> dict[str, Any]:
    """A value for the session: as JSON, else as a literal, such as a tuple. TypeError if it is neither."""
    try:
        if plain(value):
            return {"json": value}
        text = repr(value)
        if same(literal(text), value):
            return {"repr": text}
    except RecursionError:
        pass
    raise TypeError(f"a session takes what JSON or a literal can say, and {type(value).__name__} is neither")


def same(a: Any, b: Any) -> bool:
    return type(a) is type(b) and (a == b) is True


def literal(text: str) -> Any:
    """The value of a repr, if it is a literal; else the text itself."""
    if text in ("set()", "frozenset()"):
        return set[Any]() if text == "set()" else frozenset[Any]()
    try:
        return ast.literal_eval(text)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return text


def unpacked(value: Any) -> Any:
    """A value from the session."""
    found = cast("Mapping[str, Any]", value)
    return found["json"] if "json" in found else literal(found["repr"])


_within: contextvars.ContextVar[Answer | None] = contextvars.ContextVar("assay_within", default=None)


class Answer:
    """One call that is being answered, in a thread of its own."""

    def __init__(self, bridge: Bridge, number: int, function: Callable[[], Any]) -> None:
        self.bridge = weakref.ref(bridge)
        self.number = number
        self.said: queue.SimpleQueue[tuple[str, Any]] = queue.SimpleQueue()  # to the session
        self.replies: queue.SimpleQueue[tuple[bool, Any]] = queue.SimpleQueue()
        self._function = function

    def start(self) -> None:
        """Calls the function."""
        context = contextvars.copy_context()
        context.run(_within.set, self)
        threading.Thread(
            target=context.run, args=(self._run, self._function), name="assay-function", daemon=True
        ).start()

    def _run(self, function: Callable[[], Any]) -> None:
        try:
            self.said.put(("value", packed(function())))
        except BaseException as e:
            self.said.put(("error", {"type": type(e).__name__, "text": words(e), "args": arguments(e)}))

    def ask(self, what: str, name: str = "", value: Any = None) -> Any:
        """Makes the waiting session do something. RuntimeError if it no longer waits."""
        self.said.put(("ask", [self.number, what, name, value]))
        there, reply = self.replies.get()
        if not there:
            raise RuntimeError("the execution that called this function is over")
        return reply


def words(e: BaseException) -> str:
    try:
        return str(e)[:8000].encode("utf-8", "replace").decode()
    except Exception:
        return ""


def arguments(e: BaseException) -> list[Any]:
    return list(e.args) if all(plain(a) for a in e.args) else [words(e)]


class Bridge:
    """The functions of one executor. No background work holds a reference to it, so it is collected with the
    executor."""

    def __init__(self) -> None:
        self.functions: dict[str, Callable[..., Any]] = {}
        self._numbers = itertools.count(1)
        self._open: dict[int, Answer] = {}

    def entrance(self) -> Callable[..., Any]:
        """The host function."""
        ref = weakref.ref(self)

        def call(name: str | None, args: list[Any], kwargs: dict[str, Any]) -> list[Any]:
            bridge = ref()
            if bridge is None:
                raise RuntimeError("the executor is gone")
            return bridge.answer(name, args, kwargs)

        return call

    def answer(self, name: str | None, args: list[Any], kwargs: dict[str, Any]) -> list[Any]:
        """Answers a call, or continues one, until there is an answer for the session."""
        if name is None:
            one = self._open[args[0]]
            one.replies.put((True, args[1]))
        else:
            f = self.functions[name]
            one = Answer(self, next(self._numbers), lambda: f(*args, **kwargs))
            self._open[one.number] = one
            one.start()
        state, what = one.said.get()
        if state != "ask":
            self._open.pop(one.number, None)
        return [state, what]

    def within(self) -> Answer | None:
        """The current call, if it is a call of this bridge."""
        one = _within.get()
        return one if one is not None and one.bridge() is self and one.number in self._open else None

    def over(self) -> None:
        """Ends the execution: functions that still send requests get an error."""
        while self._open:
            _, one = self._open.popitem()
            one.replies.put((False, None))
