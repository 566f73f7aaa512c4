"""What came of one execution in a session."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any, NamedTuple, cast

from . import models
from ._ended import Ended
from ._errors import InfraError, ProgramError
from ._result import OF_PROGRAM


class Variable(NamedTuple):
    """A variable of a session, as it is listed."""

    type: str
    repr: str  # cut, if it is long


class Execution(Ended):
    """What came of one execution: what it wrote, its value or exception, the variables that it left.

    Attributes:
        raw: the execution as JSON has it. Do not change it.
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
        """Of the session."""
        return self.raw.get("session_id", "")

    @property
    def infra(self) -> bool:
        """Whether its outcome says nothing about the code: it was interrupted, or the session was lost under it."""
        return self.outcome not in OF_PROGRAM

    @property
    def alive(self) -> bool:
        """Whether the session lives on after it."""
        return bool(self.raw.get("alive"))

    @property
    def repr(self) -> str:
        """The last expression's repr, cut if it is long; "" if there is none."""
        return self.part("value").get("repr", "")

    @property
    def error(self) -> models.ResultException | None:
        """What the code ended with: type, message, line and traceback."""
        raw = self.raw.get("exception")
        return models.ResultException.from_dict(raw) if raw else None

    @property
    def variables(self) -> dict[str, Variable]:
        """New and changed ones, at most 200."""
        return listed(self.raw.get("variables"))

    @property
    def calls(self) -> int:
        """How many calls of host functions were made, those that were refused among them."""
        return self.raw.get("calls", 0)

    @property
    def tables(self) -> list[models.ResultDisplayItemTable]:
        """Heads of data frames that were shown."""
        return [models.ResultDisplayItemTable.from_dict(d["table"]) for d in self._display if d.get("table")]

    @property
    def images(self) -> list[bytes]:
        """Figures that were open, as PNG."""
        return [base64.b64decode(d["base64"]) for d in self._display if d.get("base64")]

    @property
    def _display(self) -> list[dict[str, Any]]:
        return self.raw.get("display") or []

    @property
    def duration(self) -> float:
        """Seconds that it took, as the session itself measured them."""
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
            InfraError: it was interrupted, or the session ended under it for a reason that is not the code's.
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
    """Variables as the API lists them."""
    found = cast("dict[str, dict[str, str]]", variables or {})
    return {name: Variable(v.get("type", ""), v.get("repr", "")) for name, v in found.items()}
