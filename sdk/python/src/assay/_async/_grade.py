"""Grading of solutions: rounds of map until each has a verdict."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal

from .._errors import APIError, KeyUsedError, ProgramError, Timeout, reused
from .._grading import CODE, Labels, RewardOf, Rewards, Solutions, Tests, failed, reward_of, worth_another
from .._progress import Progress, reporter
from .._result import Result
from .._units import Deadline, Seconds, duration
from ._stream import AsyncResultStream


class AsyncGrading:
    """One call of grade."""

    def __init__(
        self,
        map: Callable[..., AsyncResultStream],
        solutions: Iterable[str],
        tests: Tests | Iterable[Tests],
        labels: Labels | None,
        *,
        reward: RewardOf,
        attempts: int,
        on_error: Literal["raise", "none"],
        timeout: Seconds | None,
        key: str | None,
        case_wall: Seconds | None,
        fenced: bool,
        implied_imports: bool,
        **defaults: Any,
    ) -> None:
        if on_error not in ("raise", "none"):
            raise ValueError("on_error: must be 'raise' or 'none'")
        if attempts < 1:
            raise ValueError("attempts: must be 1 or more")
        if not callable(reward) and reward not in ("score", "pass"):
            raise ValueError("reward: must be 'score', 'pass' or a function of a result")
        if key is not None and not 1 <= len(key) <= 190:
            raise ValueError("key: has 1 to 190 characters")
        self._map = map
        defaults["case_wall"] = None if case_wall is None else duration(case_wall, "case_wall")
        self._solutions = Solutions(
            solutions, tests, labels, {k: v for k, v in defaults.items() if v is not None}, fenced=fenced,
            implied_imports=implied_imports,
        )  # fmt: skip
        self._reward: RewardOf = reward
        self._attempts = attempts
        self._on_error = on_error
        self._deadline = Deadline(timeout)
        self._key = key
        self._note: Callable[[str], None] | None = None
        self._results: list[Result | None] = [None] * len(self._solutions)

    async def rewards(self, progress: Progress, options: Mapping[str, Any]) -> Rewards:
        """The rewards; options are those of map."""
        report = reporter(progress, len(self._solutions))
        self._note = report.note
        retried = 0
        try:
            for i, result in self._solutions.unreadable().items():
                self._results[i] = result
                report.update(result)
            left = [i for i, result in enumerate(self._results) if result is None]
            for attempt in range(self._attempts):
                retried += len(left) if attempt else 0
                await self._round(left, attempt, options, report.update)
                left = [i for i in left if worth_another(self._results[i])]
                if not left or self._deadline.over:
                    break
        except KeyUsedError as e:
            raise reused(e, self._key) from None
        except Timeout:
            if self._on_error == "raise":
                raise
        finally:
            report.close()
        if self._on_error == "raise":
            self._raise()
        rewards = [None if r is None else reward_of(r, self._reward) for r in self._results]
        return Rewards(rewards, self._results, self._solutions.labels, retried)

    async def _round(
        self, left: list[int], attempt: int, options: Mapping[str, Any], update: Callable[[Result], None]
    ) -> None:
        """Runs the given solutions once."""
        if not left:
            return
        last = attempt == self._attempts - 1
        stream = self._map(
            (self._solutions.job(i) for i in left), order="completed", on_error="return",
            key=None if self._key is None else f"{self._key}#{attempt}",
            timeout=None if self._deadline.at is None else max(self._deadline.left(1e9), 0.001),
            note=self._note, **options,
        )  # fmt: skip
        async with stream:
            async for result in stream:
                if isinstance(error := result.error, APIError):
                    if error.field != CODE:
                        raise error  # it would be refused again
                    result = failed(result, error)
                result.index = left[result.index]
                self._results[result.index] = result
                if last or not worth_another(result):
                    update(result)

    def _raise(self) -> None:
        """Raises for the first solution without a verdict."""
        for result in self._results:
            if result is None:
                raise Timeout(f"grade: not all rewards are known within {self._deadline.given} s")
            if result.error is not None:
                raise result.error
            if result.score is None:
                raise ProgramError(result)
