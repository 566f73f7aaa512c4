"""How a job ended."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from . import models
from ._errors import AssayError, InfraError, ProgramError

OF_PROGRAM = frozenset(
    (
        *("succeeded", "failed", "exception", "timed_out", "out_of_memory", "output_limit"),
        *("disk_limit", "process_limit", "signaled", "policy_violation", "compile_error"),
    )
)
"""Outcomes that say something about the program. One that is not known here says nothing, either."""

CHECK_ERROR = "check_error"
"""The tests failed by themselves: their author's fault, not the solution's and not the fleet's."""

BRIEF: tuple[str, ...] = (
    *("id", "batch_id", "name", "labels", "state", "outcome", "message", "exit_code", "signal"),
    *("stdout", "stderr", "output", "display", "value", "exception", "variables", "steps"),
    *("tests", "compiled", "feedback", "artifacts", "usage", "cached", "cached_from"),
)
"""Fields of a result without those that say how it came about: enforcement, attempts and timings, most of its size."""


class Result:
    """How a job ended: what it wrote, its value or exception, its tests, what it used.

    A result is cheap until it is looked into. record has everything, as the API documents it.

    Attributes:
        raw: the result as JSON has it. Do not change it.
        index: of client.map: the position of its item, from 0; otherwise 0.
        item: of client.map: the item itself; otherwise None.
    """

    __slots__ = ("_error", "_record", "index", "item", "raw")

    def __init__(
        self, raw: Mapping[str, Any], index: int = 0, item: Any = None, error: AssayError | None = None
    ) -> None:
        self.raw = raw
        self._error = error
        self.index = index
        self.item = item
        self._record: models.Result | None = None

    @property
    def record(self) -> models.Result:
        """The whole result, decoded. What was not asked for, by fields=, is None or empty."""
        if self._record is None:
            self._record = models.Result.from_dict(self.raw)
        return self._record

    def part(self, name: str) -> dict[str, Any]:
        """A field of raw that is an object; empty if it is not there."""
        return self.raw.get(name) or {}

    @property
    def id(self) -> str:
        """Of the job."""
        return self.raw.get("id", "")

    @property
    def name(self) -> str:
        """Of the job; "" if it has none."""
        return self.raw.get("name", "")

    @property
    def labels(self) -> dict[str, str]:
        """Of the job, without those that this client added."""
        return {k: v for k, v in self.part("labels").items() if k != POSITION}

    @property
    def outcome(self) -> str:
        """How it ended: succeeded, failed, exception, timed_out, out_of_memory and so on (models.Outcome)."""
        return self.raw.get("outcome", "")

    @property
    def message(self) -> str:
        """One sentence for a person; "" if there is none."""
        return self.raw.get("message", "")

    @property
    def ok(self) -> bool:
        """Whether the outcome is succeeded."""
        return self.outcome == "succeeded"

    @property
    def infra(self) -> bool:
        """Whether the fleet, not the program, is why it ended so: then nothing is known about the program."""
        return self.outcome not in OF_PROGRAM and self.outcome != CHECK_ERROR

    @property
    def stdout(self) -> str:
        """What the program wrote there; where it is long, its head and its tail (see record.stdout)."""
        return self.part("stdout").get("text", "")

    @property
    def stderr(self) -> str:
        """What the program wrote there; where it is long, its head and its tail (see record.stderr)."""
        return self.part("stderr").get("text", "")

    @property
    def exit_code(self) -> int | None:
        """Of the program; None if it had none of its own."""
        return self.raw.get("exit_code")

    @property
    def value(self) -> Any:
        """Value of the code's last expression, where JSON has all of it, else its repr; None if there is none."""
        value = self.raw.get("value")
        return None if value is None else value["json"] if "json" in value else value.get("repr")

    @property
    def exception(self) -> models.ResultException | None:
        """What the program ended with: type, message, line and traceback."""
        return self.record.exception

    @property
    def score(self) -> float | None:
        """Of a graded solution: weighted share of its tests that passed, 0 to 1.

        A solution that came to no test has 0. None if nothing is known about the solution: the fleet's failure (infra),
        or tests that failed by themselves.
        """
        if self.outcome not in OF_PROGRAM:
            return None
        tests = self.raw.get("tests")
        score = 0.0 if tests is None else tests.get("score")
        return None if score is None else float(score)

    @property
    def feedback(self) -> list[str]:
        """Lines for the author of a solution: one for each kind of failure."""
        return list(self.raw.get("feedback") or [])

    @property
    def summary(self) -> str:
        """One line for a person."""
        text = f"job {self.id}{f' ({self.name})' if self.name else ''}: {self.outcome}"
        exception = self.raw.get("exception")
        why = f"{exception['type']}: {exception['message']}" if exception else self.message
        return f"{text}: {why}" if why else text

    @property
    def error(self) -> AssayError | None:
        """Why nothing is known about the program: an InfraError, or of map the error of an item that was refused.

        None for a program that ran, however it ended.
        """
        return self._error or (InfraError(self) if self.infra else None)

    def check(self) -> Result:
        """Returns the result itself if the program succeeded.

        Raises:
            InfraError: nothing is known about the program.
            ProgramError: the program failed.
        """
        if self.error is not None:
            raise self.error
        if not self.ok:
            raise ProgramError(self)
        return self

    def __repr__(self) -> str:
        return f"<assay.Result {self.summary}>"

    def __reduce__(self) -> tuple[Any, ...]:
        return Result, (self.raw, self.index, self.item, self._error)


POSITION = "assay.position"
"""Label by which this client knows whose result it is, and ends a job that nobody waits for."""


def marked(spec: Mapping[str, Any], mark: str) -> dict[str, Any]:
    """A job with that label."""
    labels: Mapping[str, str] = spec.get("labels") or {}
    return {**spec, "labels": {**labels, POSITION: mark}}


def lines(body: bytes) -> list[Result]:
    """A page of results."""
    return [Result(json.loads(line)) for line in body.splitlines() if line]
