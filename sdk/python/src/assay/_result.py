"""The result of a job."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from . import models
from ._ended import Ended
from ._errors import AssayError, InfraError, ProgramError

OF_PROGRAM = frozenset(
    (
        *("succeeded", "failed", "exception", "timed_out", "out_of_memory", "output_limit"),
        *("disk_limit", "process_limit", "signaled", "policy_violation", "compile_error"),
    )
)
"""Outcomes that depend on the program. Unknown outcomes do not."""

CHECK_ERROR = "check_error"
"""The tests failed by themselves: neither the solution nor the fleet is at fault."""

BRIEF: tuple[str, ...] = (
    *("id", "batch_id", "name", "labels", "state", "outcome", "message", "exit_code", "signal"),
    *("stdout", "stderr", "output", "display", "value", "exception", "variables", "steps"),
    *("tests", "compiled", "feedback", "artifacts", "usage", "cached", "cached_from"),
)
"""Fields of a result, without enforcement, attempts and timings, which are most of its size."""


class Result(Ended):
    """The result of a job: its output, its value or exception, its tests, its usage.

    A result is cheap: fields are decoded on access. record has everything, as the API documents it.

    Attributes:
        raw: the result as JSON. Do not change it.
        index: of client.map: the position of its item, from 0; otherwise 0.
        item: of client.map: the item itself; otherwise None.
    """

    __slots__ = ("_error", "_record", "index", "item")

    def __init__(
        self, raw: Mapping[str, Any], index: int = 0, item: Any = None, error: AssayError | None = None
    ) -> None:
        super().__init__(raw)
        self._error = error
        self.index = index
        self.item = item
        self._record: models.Result | None = None

    @property
    def record(self) -> models.Result:
        """The whole result, decoded. Fields that were not requested, by fields=, are None or empty."""
        if self._record is None:
            self._record = models.Result.from_dict(self.raw)
        return self._record

    @property
    def name(self) -> str:
        """Name of the job; "" if it has none."""
        return self.raw.get("name", "")

    @property
    def labels(self) -> dict[str, str]:
        """Labels of the job, except the labels that this client added."""
        return {k: v for k, v in self.part("labels").items() if k != POSITION}

    @property
    def infra(self) -> bool:
        """Whether the fleet, not the program, caused the outcome. Then there is no verdict on the program."""
        return self.outcome not in OF_PROGRAM and self.outcome != CHECK_ERROR

    @property
    def exception(self) -> models.ResultException | None:
        """The exception that ended the program: type, message, line and traceback."""
        return self.record.exception

    @property
    def score(self) -> float | None:
        """Of a graded solution: weighted share of its passed tests, 0 to 1.

        A solution that reached no test has 0. None if the solution has no verdict: the fleet failed (infra), or the
        tests failed by themselves.
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
        """Why there is no verdict on the program: an InfraError, or in map the error of a refused item. None for a
        program that ran, regardless of its outcome."""
        return self._error or (InfraError(self) if self.infra else None)

    def check(self) -> Result:
        """Returns the result itself if the program succeeded.

        Raises:
            InfraError: there is no verdict on the program.
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
"""Label by which this client identifies a result, and cancels a job that no caller waits for."""


def marked(spec: Mapping[str, Any], mark: str) -> dict[str, Any]:
    """A job with that label."""
    labels: Mapping[str, str] = spec.get("labels") or {}
    return {**spec, "labels": {**labels, POSITION: mark}}


def lines(body: bytes) -> list[Result]:
    """A page of results."""
    return [Result(json.loads(line)) for line in body.splitlines() if line]
