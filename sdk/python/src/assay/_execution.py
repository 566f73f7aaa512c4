"""The result of one execution in a session."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any, NamedTuple, cast

from . import models
from ._ended import Ended
from ._errors import InfraError, ProgramError
from ._result import OF_PROGRAM


class Variable(NamedTuple):
    """A variable of a session, as listed."""

    type: str
    repr: str  # truncated if it is long


class Execution(Ended):
    """The result of one execution: its output, its value or exception, and its variables.

    Attributes:
        raw: the execution as JSON. Do not change it.
    """

    __slots__ = ("_record",)

    def __init__(self, raw: Mapping[str, Any]) -> None:
        super().__init__(raw)
        self._record: models.Execute | None = None

    @property
    def record(self) -> models.Execute:
        """All of it, decoded."""
        if self._record is None:
            self._record = models.Execute.from_dict(self.raw)
        return self._record

    @property
    def session_id(self) -> str:
        """Id of the session."""
        return self.raw.get("session_id", "")

    @property
    def infra(self) -> bool:
        """Whether its outcome does not depend on the code: it was interrupted, or its session was lost."""
        return self.outcome not in OF_PROGRAM

    @property
    def alive(self) -> bool:
        """Whether the session continues after it."""
        return bool(self.raw.get("alive"))

    @property
    def repr(self) -> str:
        """Repr of the last expression, truncated if it is long; "" if there is none."""
        return self.part("value").get("repr", "")

    @property
    def error(self) -> models.ResultException | None:
        """The exception that ended the code: type, message, line and traceback."""
        raw = self.raw.get("exception")
        return models.ResultException.from_dict(raw) if raw else None

    @property
    def variables(self) -> dict[str, Variable]:
        """New and changed variables, at most 200."""
        return listed(self.raw.get("variables"))

    @property
    def calls(self) -> int:
        """Number of calls of host functions, including refused ones."""
        return self.raw.get("calls", 0)

    @property
    def tables(self) -> list[models.ResultDisplayItemTable]:
        """Heads of displayed data frames."""
        return [models.ResultDisplayItemTable.from_dict(d["table"]) for d in self._display if d.get("table")]

    @property
    def images(self) -> list[bytes]:
        """Open figures, as PNG."""
        return [base64.b64decode(d["base64"]) for d in self._display if d.get("base64")]

    @property
    def _display(self) -> list[dict[str, Any]]:
        return self.raw.get("display") or []

    @property
    def duration(self) -> float:
        """Its seconds, as measured by the session itself."""
        return self.raw.get("wall_ms", 0.0) / 1000

    @property
    def summary(self) -> str:
        """One line for a person."""
        text, error = f"execution {self.id}: {self.outcome}", self.error
        why = f"{error.type}: {error.message}" if error else self.message
        return f"{text}: {why}" if why else text

    def check(self) -> Execution:
        """Returns the execution itself if it succeeded.

        Raises:
            InfraError: it was interrupted, or the session ended for a reason outside the code.
            ProgramError: the code failed.
        """
        if self.infra:
            raise InfraError(self)
        if not self.ok:
            raise ProgramError(self)
        return self

    def __repr__(self) -> str:
        return f"<assay.Execution {self.summary}>"

    def __reduce__(self) -> tuple[Any, ...]:
        return Execution, (self.raw,)


def listed(variables: Any) -> dict[str, Variable]:
    """Variables from the API's list."""
    found = cast("dict[str, dict[str, str]]", variables or {})
    return {name: Variable(v.get("type", ""), v.get("repr", "")) for name, v in found.items()}
