"""Reward functions for TRL: one job for each completion, with all of its test cases.

    GRPOTrainer(model, reward_funcs=[code_reward], train_dataset=…)      # with a column "tests"
    GRPOTrainer(model, reward_funcs=[CodeReward("ground_truth", reward="pass")], …)

A reward without a verdict is None, which TRL omits from the group. docs/integrations/rewards.md has the formats of
tests.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, cast

from .._code import code_of
from .._errors import InfraError, ProgramError, Timeout
from .._grading import reward_of
from .._result import Result
from .._sync._submit import Future
from ._answers import to_tests
from ._rewards import Options, graded, nothing

__all__ = ["AsyncCodeReward", "CodeReward", "Options", "async_code_reward", "code_of", "code_reward", "to_tests"]


class CodeReward:
    """A reward function for code: the completions' rewards, by the tests in a column of the data set.

    Args:
        column: of the data set, with the tests of each row, as JSON text or objects; see to_tests. Where it is None,
            the reward is None.
        name: its name in TRL's logs.
        on_error: "none", or "raise" for missing verdicts and failed tests: for trainers that turn None into 0.
        options: see Options.

    A completion is text, or messages; the last message counts. The reward is None if there is no verdict after all
    attempts, if the tests failed by themselves, or if the timeout is over. Their numbers are logged as NAME/unknown
    and NAME/broken, and the outcome of each as the column NAME/outcome.

    Raises:
        ValueError, InvalidError: there is no such column, or it has no tests.
        InfraError, Timeout, ProgramError: there is no verdict, or the tests failed by themselves (on_error="raise").
        APIError, Unreachable: the fleet refuses such jobs, or does not answer for as long as patience.
    """

    def __init__(
        self,
        column: str = "tests",
        *,
        name: str = "code_reward",
        on_error: Literal["none", "raise"] = "none",
        **options: Any,
    ) -> None:
        if on_error not in ("none", "raise"):
            raise ValueError("on_error: must be 'none' or 'raise'")
        self.__name__ = name
        self._raises = on_error == "raise"
        self._column = column
        self._options = Options.of(options)

    def __call__(self, prompts: Sequence[Any], completions: Sequence[Any], **columns: Any) -> list[float | None]:
        futures: list[Future | None] = []
        try:
            futures.extend(self._futures(completions, columns))
            concurrent.futures.wait([f for f in futures if f is not None], self._options.timeout)
            return self._rewards(futures, columns)
        finally:
            cancel(futures)

    def _futures(self, completions: Sequence[Any], columns: Mapping[str, Any]) -> Iterable[Future | None]:
        """A future for each completion; None for one without tests."""
        tests = columns.get(self._column)
        if tests is None or len(tests) != len(completions):
            have = ", ".join(k for k, v in columns.items() if isinstance(v, list))
            raise ValueError(f"{self._column}: the data set has no such column of tests; it has {have}")
        for completion, truth in zip(completions, tests):
            if truth is None:
                yield None
                continue
            spec = self._options.job(text_of(completion), truth)
            if spec is not None:
                yield graded(spec, self._options)
            else:
                future = Future()
                future.set_result(nothing())
                yield future

    def _rewards(self, futures: Sequence[Future | None], columns: Mapping[str, Any]) -> list[float | None]:
        rewards: list[float | None] = []
        outcomes: list[str | None] = []
        unknown = broken = 0
        for future in futures:
            result = None if future is None else self._result(future)
            reward = None if result is None else reward_of(result, self._options.reward)
            if result is not None and reward is None and self._raises:
                raise ProgramError(result)
            unknown += future is not None and result is None
            broken += result is not None and reward is None
            rewards.append(reward)
            outcomes.append(None if future is None else result.outcome if result else "unknown")
        self._log(columns, unknown, broken, outcomes)
        return rewards

    def _result(self, future: Future) -> Result | None:
        """The result; None if there is none, or none in time."""
        try:
            if future.done():
                return future.result()
        except InfraError:
            if self._raises:
                raise
        if self._raises:
            raise Timeout(f"{self.__name__}: not all results are there within {self._options.timeout} s")
        return None

    def _log(self, columns: Mapping[str, Any], unknown: int, broken: int, outcomes: list[str | None]) -> None:
        metric, extra = columns.get("log_metric"), columns.get("log_extra")
        if callable(metric):
            metric(f"{self.__name__}/unknown", float(unknown))
            metric(f"{self.__name__}/broken", float(broken))
        if callable(extra):
            extra(f"{self.__name__}/outcome", outcomes)


class AsyncCodeReward(CodeReward):
    """CodeReward for TRL's event loop, where it runs beside other waiting reward functions."""

    async def __call__(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, prompts: Sequence[Any], completions: Sequence[Any], **columns: Any
    ) -> list[float | None]:
        futures: list[Future | None] = []
        try:
            futures.extend(self._futures(completions, columns))
            waiting = [asyncio.wrap_future(f) for f in futures if f is not None]
            for w in waiting:
                w.add_done_callback(lambda f: f.cancelled() or f.exception())  # _rewards handles its exception
            if waiting:
                await asyncio.wait(waiting, timeout=self._options.timeout)
            return self._rewards(futures, columns)
        finally:
            cancel(futures)


code_reward = CodeReward()
async_code_reward = AsyncCodeReward(name="async_code_reward")


def text_of(completion: Any) -> str:
    """The text of a completion: itself, or its last message, which may have parts."""
    if isinstance(completion, str):
        return completion
    content: Any = completion[-1].get("content") if completion else ""
    if content is None or isinstance(content, str):
        return content or ""
    parts = cast("Sequence[Mapping[str, Any]]", content)
    return "".join(str(p.get("text") or "") for p in parts)


def cancel(futures: Iterable[Future | None]) -> None:
    for future in futures:
        if future is not None:
            future.cancel()
