"""Common base of interpreter adapters: one session that starts at its first use, and ends once."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any

from assay import (
    AnswerTooLarge,
    AssayError,
    Client,
    Execution,
    InvalidError,
    NotFoundError,
    QuotaError,
    Session,
    TooLargeError,
    default_client,
)
from assay._ended import json_or_repr
from assay.models import Policy

#: Wall of an execution without a policy's own: the time of host functions counts, and language models are slow.
WALL = "10m"
#: Idle timeout between two executions, for the same reason.
IDLE = "1h"

#: Errors that leave a session unchanged: the request was refused, or only its answer was too large.
_HARMLESS = (InvalidError, QuotaError, AnswerTooLarge)


class SessionEnded(AssayError):
    """The session has ended, and its state is lost.

    Attributes:
        outcome: the API's outcome of the session, such as "out_of_memory"; "lost" if it is not known, and "canceled" if
            it was closed here.
    """

    def __init__(self, message: str, outcome: str = "lost") -> None:
        self.outcome = outcome
        super().__init__(message)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (str(self), self.outcome)


class Interpreter:
    """A session that starts at its first use. After its end there is no other: SessionEnded has the reason."""

    def __init__(
        self,
        client: Client | None,
        policy: Mapping[str, Any] | Policy | str | None,
        *,
        idle_timeout: float | str | timedelta | None = None,
        **options: Any,
    ) -> None:
        self._client = client
        idle_timeout = IDLE if idle_timeout is None else idle_timeout
        self._options: dict[str, Any] = {"policy": _patient(policy), "idle_timeout": idle_timeout, **options}
        self._functions: dict[str, Callable[..., Any]] = {}
        self._lock = threading.Lock()
        self._session: Session | None = None
        self._id: str | None = None
        self.ended: SessionEnded | None = None
        """The reason of its end, if it has ended."""

    @property
    def id(self) -> str | None:
        """Id of the session, once it has started."""
        return self._id

    @property
    def functions(self) -> frozenset[str]:
        """Names of host functions."""
        return frozenset(self._functions)

    def start(self) -> Session:
        """Starts the session, if it is not started yet. SessionEnded if it has ended."""
        with self._lock:
            if self.ended is not None:
                raise SessionEnded(str(self.ended), self.ended.outcome)
            if self._session is None:
                client = self._client or default_client()
                self._session = client.session(functions=self._functions, **self._options).start()
                self._id = self._session.id
            return self._session

    def provide(self, name: str, function: Callable[..., Any]) -> None:
        """Lets code call a function of this process. ValueError if the policy does not allow the name.

        It must not hold a reference to the owner of this object. The answering task holds the function, and the
        session ends when its owner is collected.
        """
        with self._lock:
            if self._session is not None:
                self._session.function(function, name=name)
            self._functions[name] = function

    def run(self, code: str, variables: Mapping[str, Any] | None = None) -> Execution:
        """Executes code; the session survives any outcome. Raises SessionEnded if it does not."""
        session = self.start()
        with _Watch(self):
            execution = session.run(code or "\n", variables=variables)
        if not execution.alive:
            raise self.end(execution.message or "the session has ended", execution.outcome)
        return execution

    def get(self, name: str) -> Any:
        """A variable's value; None if there is none. Raises TooLargeError above 16 MiB."""
        session = self.start()
        with _Watch(self):
            try:
                return session.get(name)
            except NotFoundError:
                return None

    def value(self, execution: Execution) -> Any:
        """The value of an execution's last expression: as JSON, else its repr; None if there is none."""
        kind = (execution.raw.get("value") or {}).get("type")
        if kind not in ("str", "list", "dict") or "json" in execution.raw["value"]:
            return json_or_repr(execution.raw.get("value"))
        try:  # it may be JSON, but larger than the answer of an execution
            return self.get("_")
        except TooLargeError:
            return json_or_repr(execution.raw.get("value"))

    def set(self, name: str, value: Any) -> None:
        """Sets a variable, up to 16 MiB of JSON."""
        session = self.start()
        with _Watch(self):
            session.set(name, value)

    def close(self) -> None:
        """Ends the session, if there is one. Raises nothing: an unreachable session ends by its lease."""
        with self._lock:
            session, self._session = self._session, None
            self.ended = self.ended or SessionEnded("the session was closed", "canceled")
        if session is not None:
            try:
                session.close()
            except AssayError:
                pass

    def end(self, message: str, outcome: str = "lost") -> SessionEnded:
        """Marks the session as ended, and returns the exception to raise."""
        self.ended = self.ended or SessionEnded(message, outcome)
        return self.ended


class _Watch:
    """Turns errors after which the state of a session is unknown into SessionEnded."""

    def __init__(self, interpreter: Interpreter) -> None:
        self._interpreter = interpreter

    def __enter__(self) -> None:
        pass

    def __exit__(self, _: object, e: BaseException | None, __: object) -> None:
        if isinstance(e, AssayError) and not isinstance(e, (*_HARMLESS, SessionEnded)):
            raise self._interpreter.end(str(e)) from e


def _patient(policy: Mapping[str, Any] | Policy | str | None) -> Mapping[str, Any] | Policy | str:
    if policy is None:
        return {"wall": WALL}
    if isinstance(policy, str):
        return policy
    given = policy.to_dict() if isinstance(policy, Policy) else policy
    return {"wall": WALL, **given}


def failure(execution: Execution) -> str:
    """The message of a failed execution: its exception, or the exceeded limit."""
    error = execution.error
    if error is not None and execution.outcome == "exception":
        return f"{error.type}: {error.message}"
    return execution.message or execution.outcome


def printed(execution: Execution) -> str:
    """The output of both streams, in order, without the traceback of an exception at its end."""
    text = "".join(chunk.get("text", "") for chunk in execution.raw.get("output") or ())
    return text if execution.error is None else text.removesuffix(execution.error.traceback or "")
