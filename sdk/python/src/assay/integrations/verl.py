"""Reward functions for verl: one job for each answer, with all of its test cases.

    reward.custom_reward_function.path=pkg://assay.integrations.verl
    reward.custom_reward_function.name=compute_score

verl's reward loop calls compute_score for every answer, without waiting for the previous one. Answers within a
moment are sent together. Options (Options of this module) are reward_kwargs. docs/integrations/rewards.md has the
formats of ground truths, and verl's handling of exceptions.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from .._code import code_of
from .._errors import InvalidError, ProgramError, Timeout, TooLargeError
from .._grading import reward_of
from .._result import CHECK_ERROR, Result
from .._sync._submit import Future
from ._answers import to_tests
from ._rewards import Options, graded, nothing

__all__ = ["Options", "code_of", "compute_score", "compute_score_batch", "compute_score_sync", "to_tests"]

OF_VERL = ("reward_router_address", "reward_model_tokenizer")
"""Arguments that verl adds if it has a reward model; they are not used here."""

Score = dict[str, Any]


class Answer:
    """One answer that is being scored."""

    def __init__(self, solution: str, truth: Any, given: Mapping[str, Any]) -> None:
        options = {k: v for k, v in given.items() if k not in OF_VERL}
        self._broken: float | None = options.pop("broken", None)
        self._detail: bool = options.pop("detail", True)
        self._options = Options.of(options)
        self._fault: Exception | None = None
        spec = None
        try:
            spec = self._options.job(solution, truth)
        except ValueError as e:
            self._fault = e
        if spec is not None:
            self.future = graded(spec, self._options)
        else:
            self.future = Future()
            self.future.set_result(nothing())

    @property
    def timeout(self) -> float | None:
        """Seconds that it may take."""
        return self._options.timeout

    def score(self) -> Score | float:
        """The score, when the time is over or the future done."""
        if not self.future.done():
            raise Timeout(f"an answer has no result within {self.timeout} s")
        fault = self._fault
        try:
            result = self.future.result()
        except InvalidError as e:
            if not isinstance(e, TooLargeError) and not e.field.startswith("program"):
                raise  # not because of its tests
            fault, result = e, nothing()
        reward = None if fault else reward_of(result, self._options.reward)
        if reward is None:
            if self._broken is None:
                raise fault or ProgramError(result)
            result, reward = Result({**result.raw, "outcome": CHECK_ERROR}), float(self._broken)
        return details(result, reward) if self._detail else reward


async def compute_score(
    data_source: str, solution_str: str, ground_truth: Any, extra_info: Any = None, **options: Any
) -> Score | float:
    """The score of one answer, for verl's reward loop.

    Args:
        data_source, extra_info: ignored.
        solution_str: the answer, with code in it.
        ground_truth: its tests; see to_tests.
        options: see Options; and broken: the score if the tests are at fault, so that no answer could have passed;
            by default that raises. detail: whether all loggable values are returned, or only the score.

    Returns:
        {"score", "acc" (1.0 if all tests passed), "passed", "total", "outcome", "job"}, or the score alone.

    Raises:
        InfraError: the answer has no verdict after all attempts. This is never a score.
        ProgramError, InvalidError, ValueError: the tests failed by themselves, or are invalid, and broken is not given.
        APIError, Unreachable: the fleet refuses such jobs, or does not answer for as long as patience.
        Timeout: the timeout is over.
    """
    answer = Answer(solution_str, ground_truth, options)
    done = asyncio.wrap_future(answer.future)
    done.add_done_callback(lambda f: f.cancelled() or f.exception())  # score handles its exception
    try:
        await asyncio.wait([done], timeout=answer.timeout)
        return answer.score()
    finally:
        answer.future.cancel()  # and its job, if it is running


def compute_score_sync(
    data_source: str, solution_str: str, ground_truth: Any, extra_info: Any = None, **options: Any
) -> Score | float:
    """compute_score for reward managers that cannot await: remote and, of old, naive, dapo and prime."""
    return scores([(solution_str, ground_truth)], options)[0]


def compute_score_batch(
    data_sources: Iterable[str],
    solution_strs: Iterable[str],
    ground_truths: Iterable[Any],
    extra_infos: Iterable[Any] = (),
    **options: Any,
) -> list[Score | float]:
    """compute_score of many answers at once, for the old reward manager batch. If one raises, all are canceled."""
    solutions, truths = list(solution_strs), list(ground_truths)
    if len(solutions) != len(truths):
        raise ValueError(f"ground_truths: there are {len(truths)} for {len(solutions)} solutions")
    return scores(list(zip(solutions, truths)), options)


def scores(samples: Sequence[tuple[str, Any]], options: Mapping[str, Any]) -> list[Score | float]:
    """The scores of answers that are sent together."""
    answers: list[Answer] = []
    try:
        for solution, truth in samples:
            answers.append(Answer(solution, truth, options))
        if answers:
            concurrent.futures.wait([a.future for a in answers], answers[0].timeout)
        return [a.score() for a in answers]
    finally:
        for a in answers:
            a.future.cancel()


def details(result: Result, reward: float) -> Score:
    """Values for verl's logs; it requires the same keys for every answer."""
    tests: Mapping[str, Any] = result.raw.get("tests") or {}
    return {
        "score": reward, "acc": float(result.ok), "passed": int(tests.get("passed", 0)),
        "total": int(tests.get("total", 0)), "outcome": result.outcome, "job": result.id,
    }  # fmt: skip
