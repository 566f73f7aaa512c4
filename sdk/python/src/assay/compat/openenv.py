"""The Python executor of OpenEnv's REPL environment, as a class that runs code in a session of a fleet.

from assay.compat.openenv import PythonExecutor

executor = PythonExecutor()
executor.set_context("a long text")
executor.inject_function("llm_query", ask)
executor.execute("answer = llm_query(context[:100])")["success"]
"""

from __future__ import annotations

import ast
import json
import re
import threading
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from .. import models
from .._default import default_client
from .._errors import InfraError, NotFoundError
from .._execution import Execution
from .._jobs import PolicyLike
from .._sync._client import Client
from .._sync._session import Session
from ..models import to_json
from ._bridge import CALL, PRELUDE, Bridge, literal, packed, unpacked

IMPORTS = (
    *("re", "json", "math", "random", "collections", "itertools", "functools", "operator", "string", "textwrap"),
    *("difflib", "statistics", "decimal", "fractions", "datetime", "copy", "pprint", "typing", "dataclasses", "enum"),
    *("bisect", "heapq", "array", "struct", "base64", "hashlib", "hmac", "uuid"),
)
"""Modules that may be imported by default."""

ALWAYS = (
    *("collections", "datetime", "itertools", "math", "queue", "random", "re", "stat", "statistics", "time"),
    "unicodedata",
)
"""Modules that may always be imported."""

HELPERS = ("format_exc", "safe_json_dumps")
"""Functions of code besides the injected ones."""

LAST = b"_assay_last"
"""Variable for the value of a last assignment whose target is not a name."""

THROUGH = re.compile(r"\(_assay_last := \((.*)\)\)")

SHOWN = 500
"""Characters of a variable in locals_snapshot."""

KINDS = {"timed_out": "TimeoutError", "out_of_memory": "MemoryError", "policy_violation": "ImportError"}
"""Type of the exception for outcomes without an exception."""


class PythonExecutor:
    """Executes Python code in a session, and keeps its namespace between executions.

    It has all arguments, methods and results of the reference. The first use starts the session. The session ends
    with the executor: by close(), or when the executor is garbage-collected. Several threads may use it.

    Args:
        max_output_length: most characters of stdout and stderr; longer output is truncated, with its length.
        allowed_imports: modules that code may import; default IMPORTS. "*" is every module.
        client: the client to use; else the default client.
        policy: permissions and limits of the code. A stored policy, or one with imports, replaces allowed_imports.
        image, name, labels: of the session.
    """

    def __init__(
        self,
        max_output_length: int = 8192,
        allowed_imports: Iterable[str] | None = None,
        *,
        client: Client | None = None,
        policy: PolicyLike | None = None,
        image: str | None = None,
        name: str | None = None,
        labels: Mapping[str, str] | None = None,
    ) -> None:
        self.max_output_length = max_output_length
        self.allowed_imports = list(allowed_imports or IMPORTS)
        self._client = client
        self._made: dict[str, Any] = {"policy": self._policy(policy), "image": image, "name": name, "labels": labels}
        self._bridge = Bridge()
        self._session: Session | None = None
        self._turn = threading.Lock()
        self._fresh()

    def _fresh(self) -> None:
        self._bridge.functions.clear()
        self._user_variables: set[str] = set(HELPERS)
        self._known: set[str] = set()  # names that existed before an execution
        self._pending: list[str] | None = None  # functions to inject; None: the session is not set up yet

    def _policy(self, policy: PolicyLike | None) -> Any:
        whole: Any = to_json(policy)
        if isinstance(whole, str):
            return whole
        given: dict[str, Any] = whole or {}
        whole = {"stdout": {"limit": "1Mi"}, "stderr": {"limit": "1Mi"}, **given}
        if "imports" not in whole and "*" not in self.allowed_imports:
            names = {m.removesuffix(".*") for m in self.allowed_imports} | set(ALWAYS)
            whole["imports"] = {"allow": sorted(names)}
        return whole

    # Methods of the reference

    def set_context(self, context: str, variable_name: str = "context") -> None:
        """Sets a variable to a text for the code."""
        self.set_variable(variable_name, context)

    def set_variable(self, name: str, value: Any) -> None:
        """Sets a variable. A callable is injected as a function. Other values must be JSON or a literal.

        TypeError for other values, and ValueError for an invalid name.
        """
        if callable(value):
            return self.inject_function(name, value)
        identifier(name)
        box, answer = packed(value), self._bridge.within()
        if answer is not None:
            answer.ask("set", name, box)
        elif "json" in box:
            self._live().set(name, value)
        else:
            self._live().run(f"{name} = {box['repr']}").check()
        self._bridge.functions.pop(name, None)
        self._user_variables.add(name)
        self._known.add(name)
        return None

    def get_variable(self, name: str) -> Any | None:
        """A variable's value; None if there is none. A value that is neither JSON nor a literal is returned as its
        repr."""
        if not name.isidentifier() or name in self._bridge.functions or (self._session is None and not self._known):
            return None
        answer = self._bridge.within()
        if answer is not None:
            reply = answer.ask("get", name)
            return None if reply is None else unpacked(reply)
        try:
            found = self._live().value(name)
        except NotFoundError:
            return None
        return found.json if found.json is not None or found.type == "NoneType" else literal(found.repr or "")

    def list_variables(self) -> list[str]:
        """Names of variables, of injected functions and of helpers, in no order."""
        answer = self._bridge.within()
        if answer is not None:
            names = set(answer.ask("list"))
        elif self._session is None:
            names = set[str]()
        else:
            names = {n for n, v in self._live().names().items() if not defined(v.type, v.repr)}
            self._known = names if len(names) < 190 else self._known | names
        return list({n for n in names if not n.startswith("_")} | self._user_variables)

    def execute(self, code: str) -> dict[str, Any]:
        """Executes code, and returns its result in the format of the reference.

        Returns:
            stdout: the printed text, and the value of the last expression or assignment as JSON, else as its repr.
            stderr: the text on stderr, and the exception.
            locals_snapshot: reprs of new variables.
            execution_time: in seconds.
            success: whether it ended without an exception.
            exception: type, message and traceback; None if there was none.

        Raises:
            InfraError: the fleet lost the session: the effect of the code is unknown.
            ConflictError: the session has ended before: reset() starts a new one.
            AssayError: see Client.
        """
        if self._bridge.within() is not None:
            raise RuntimeError("a function that code waits for cannot execute code itself")
        with self._turn:
            session = self._live()
            try:
                e = session.run(with_value(code) if code.strip() else "pass")
            finally:
                self._bridge.over()
        if e.infra and e.outcome != "canceled":
            raise InfraError(e)
        exception = failure(e)
        own = e.stderr.removesuffix(e.error.traceback) if e.error else e.stderr
        return {
            "stdout": self._cut("\n".join(p for p in (e.stdout, value(e)) if p)),
            "stderr": self._cut("\n".join(p for p in (own, exception) if p)),
            "locals_snapshot": self._new(e),
            "execution_time": e.duration,
            "success": exception is None,
            "exception": exception,
        }

    def reset(self) -> None:
        """Resets the namespace to its initial state, without variables and functions. Files stay."""
        self._bridge.over()
        self._fresh()
        if self._session is not None and self._session.info().state == "live":
            self._session.reset()
        else:
            self.close()

    def inject_function(self, name: str, func: Callable[..., Any]) -> None:
        """Makes a local function callable by code, with arguments as JSON.

        It returns JSON or a literal. Its exceptions are raised in the code, with their own type if it is a built-in
        one, else as CallError. While code waits for it, it can read, set and list variables.
        """
        if not callable(func):
            raise TypeError(f"func: {func!r:.80} cannot be called")
        identifier(name)
        self._bridge.functions[name] = func
        self._user_variables.add(name)
        if self._pending is not None and name not in self._pending:
            self._pending.append(name)

    # Further methods

    def close(self) -> None:
        """Ends the session. The executor can be used again, with a new session."""
        session, self._session = self._session, None
        if session is not None:
            session.close()
        self._pending = None

    def __enter__(self) -> PythonExecutor:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _of(self) -> Client:
        return self._client if self._client is not None else default_client()

    def _live(self) -> Session:
        """The session, with all functions."""
        if self._session is None:
            self._session = self._of().session(functions={CALL: self._bridge.entrance()}, **self._made).start()
            self._pending = None
        if self._pending is None:
            self._session.run(PRELUDE).check()
            self._pending = list(self._bridge.functions)
        if self._pending:
            self._session.run("\n".join(f"_assay_make({name!r})" for name in self._pending)).check()
            self._pending = []
        return self._session

    def _cut(self, text: str) -> str:
        if len(text) <= self.max_output_length:
            return text
        return f"{text[: self.max_output_length]}\n... (truncated, total {len(text)} chars)"

    def _new(self, e: Execution) -> dict[str, str]:
        """New variables. As in the reference, without functions that were defined by name."""
        new: dict[str, str] = {}
        for name, (kind, text) in e.variables.items():
            if name not in self._known and name not in self._bridge.functions and not defined(kind, text):
                new[name] = text[:SHOWN] + "..." if len(text) > SHOWN else text
        self._known.update(new)
        self._user_variables.update(new)
        return new


def identifier(name: str) -> None:
    if not (name.isascii() and name.isidentifier()):
        raise ValueError(f"name: {name!r:.80} is not the name of a variable")


def defined(kind: str, text: str) -> bool:
    """Whether it is a function that was defined by name."""
    return kind == "function" and "<lambda>" not in text


def with_value(code: str) -> str:
    """Code whose last assignment has a value, as in the reference. Its lines are unchanged."""
    try:
        last = ast.parse(code).body[-1]
    except (SyntaxError, ValueError, IndexError, RecursionError, MemoryError):
        return code  # the session reports the error
    if not isinstance(last, (ast.Assign, ast.AugAssign, ast.AnnAssign)) or last.value is None:
        return code
    target = last.targets[0] if isinstance(last, ast.Assign) else last.target
    if named(target):
        return f"{code}\n{ast.unparse(target)}"
    return code if isinstance(last, ast.AugAssign) else through(code, last.value)


def named(target: ast.AST) -> bool:
    """Whether a target has only names, which have the value afterwards."""
    if isinstance(target, (ast.Tuple, ast.List)):
        return all(named(t) for t in target.elts)
    return isinstance(target, ast.Name) or (isinstance(target, ast.Starred) and named(target.value))


def through(code: str, node: ast.expr) -> str:
    """Code that assigns the value of its last statement to an extra variable."""
    whole = code.encode("utf-8", "surrogatepass")
    lines = whole.splitlines(keepends=True)
    if node.end_lineno is None or node.end_col_offset is None or b"\x0c" in whole or b"\x0b" in whole:
        return code  # line numbers do not match
    begin = sum(map(len, lines[: node.lineno - 1])) + node.col_offset
    end = sum(map(len, lines[: node.end_lineno - 1])) + node.end_col_offset
    changed = b"%s(%s := (%s))%s\n%s" % (whole[:begin], LAST, whole[begin:end], whole[end:], LAST)
    try:
        ast.parse(changed)
    except (SyntaxError, ValueError):
        return code
    return changed.decode("utf-8", "surrogatepass")


def as_sent(text: str) -> str:
    """A traceback with the original lines."""
    return THROUGH.sub(r"\1", text)


def value(e: Execution) -> str:
    """The last value as the reference prints it: as JSON, else as its repr."""
    raw: dict[str, Any] | None = e.raw.get("value")
    if raw is None:
        return ""
    found = raw["json"] if "json" in raw else literal(raw.get("repr", ""))
    if found is raw.get("repr"):
        return found
    try:
        return json.dumps(found)
    except (TypeError, ValueError, RecursionError):
        return raw.get("repr", "")


def failure(e: Execution) -> str | None:
    """The exception of the code in the words of the reference."""
    error: models.ResultException | None = e.error
    if e.outcome == "timed_out" or (error is None and not e.ok):
        kind = KINDS.get(e.outcome) or ("SystemExit" if e.exit_code else "RuntimeError")
        return f"{kind}: {e.message}\n{as_sent(error.traceback) if error else ''}"
    if error is None:
        return None
    return f"{error.type}: {error.message}\n{as_sent(error.traceback)}"
