"""Rewards for answers of models: the common base of the reward functions for trainers."""

from __future__ import annotations

import concurrent.futures
import functools
import os
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from .._code import code_of
from .._errors import InfraError
from .._grading import RewardOf
from .._result import Result
from .._sync._client import Client
from .._sync._submit import Future
from .._units import duration, seconds
from ._answers import plain, to_tests

PATIENCE = 600.0
"""Seconds to wait for a fleet that is unreachable or has no room: a training run may outlast that."""

POLICY: Mapping[str, Any] = {"wall": "60s", "memory": "1Gi"}
"""Limits of a solution with all of its tests; for other fields the fleet's defaults apply."""

COMPARE = ("exact", "whitespace", "tokens", "floats")

CASE_WALL = 10.0
"""Seconds of one case of standard input."""


@dataclass(frozen=True)
class Options:
    """How answers are graded.

    Attributes:
        reward: "score": weighted share of passed tests, 0 to 1; "pass": 1 if all passed, else 0; or a function of the
            result.
        first: the number of cases of a sample to take, from the first; None: all.
        compare: of outputs: exact, whitespace, tokens or floats (docs/grading-outputs.md).
        tolerance: of compare floats.
        case_wall: seconds, or a duration, for one case of standard input; default 10 s, or the policy's wall.
        policy: permissions and limits of a solution with all of its tests, or the name of a stored policy; default 60 s
            and 1 GiB.
        image: its file system; default "python".
        attempts: the number of runs of a solution without a verdict.
        timeout: seconds for an answer, with its attempts and queueing; None: no limit.
        patience: seconds to wait for a fleet that is unreachable or has no room; default 600, or ASSAY_PATIENCE.
        url, token: of the fleet; default ASSAY_URL and ASSAY_TOKEN.
        labels: of the jobs.
    """

    reward: RewardOf = "score"
    first: int | None = None
    compare: str | None = None
    tolerance: float | None = None
    case_wall: float | str | None = None
    policy: Mapping[str, Any] | str | None = None
    image: str | None = None
    attempts: int = 3
    timeout: float | None = None
    patience: float | None = None
    url: str | None = None
    token: str | None = None
    labels: Mapping[str, str] | None = None

    def __post_init__(self) -> None:
        if not callable(self.reward) and self.reward not in ("score", "pass"):
            raise ValueError("reward: must be 'score', 'pass' or a function of a result")
        if self.attempts < 1:
            raise ValueError("attempts: must be 1 or more")
        if self.first is not None and self.first < 1:
            raise ValueError("first: must be 1 or more, or None")
        if self.timeout is not None and not self.timeout > 0:
            raise ValueError("timeout: must be a positive number of seconds, or None")
        if self.compare not in (None, *COMPARE) or (self.tolerance is not None and self.compare != "floats"):
            raise ValueError(f"compare: must be one of {', '.join(COMPARE)}; tolerance is for floats")
        wall, policy = seconds(self._stdio()["wall"]), self._policy()
        if not isinstance(policy, str) and wall > seconds(duration(policy["wall"])):
            raise ValueError("case_wall: must not be more than the policy's wall, which is for all cases together")

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Options:
        """Options from a trainer's configuration; TypeError names an unknown option."""
        known = {f.name for f in fields(cls)}
        if unknown := sorted(given.keys() - known):
            raise TypeError(f"{unknown[0]}: there is no such option; there are {', '.join(sorted(known))}")
        return cls(**{k: plain(v) for k, v in given.items()})

    def job(self, answer: str, truth: Any) -> dict[str, Any] | None:
        """The job that grades an answer; None if it has no code that could run, so that its reward is 0.

        ValueError if the ground truth is invalid.
        """
        code = code_of(answer)
        tests = to_tests(truth, code or "", first=self.first, **self._stdio())
        if code is None:
            return None
        spec: dict[str, Any] = {"program": {"tests": {**tests, "code": code}}, "policy": self._policy()}
        more = {"image": self.image, "labels": self.labels}
        return {**spec, **{k: v for k, v in more.items() if v is not None}}

    def _policy(self) -> Mapping[str, Any] | str:
        return self.policy if isinstance(self.policy, str) else {**POLICY, **(self.policy or {})}

    def _stdio(self) -> dict[str, Any]:
        policy, wall = self._policy(), self.case_wall
        if wall is None:
            wall = CASE_WALL if isinstance(policy, str) else min(CASE_WALL, seconds(duration(policy["wall"])))
        given = {"compare": self.compare, "tolerance": self.tolerance, "wall": duration(wall)}
        return {k: v for k, v in given.items() if v is not None}

    @property
    def client(self) -> Client:
        """The client of this process for that fleet: answers that arrive within a moment are sent together."""
        patience = PATIENCE if self.patience is None and not os.environ.get("ASSAY_PATIENCE") else self.patience
        return client(self.url, self.token, patience)


@functools.cache
def client(url: str | None, token: str | None, patience: float | None) -> Client:
    return Client(url, token, patience=patience)


def graded(spec: Mapping[str, Any], options: Options) -> Future:
    """A future of the result of a job. The job is run again while the solution has no verdict.

    It raises InfraError if there is none after all attempts, and the errors of Client.submit. Canceling it cancels
    the job.
    """
    out, left = Future(), options.attempts

    def start() -> None:
        nonlocal left
        left -= 1
        inner = options.client.submit(spec)
        inner.add_done_callback(ended)
        out.add_done_callback(lambda f: inner.cancel() if f.cancelled() else None)

    def ended(inner: concurrent.futures.Future[Result]) -> None:
        try:
            error = inner.exception()
            if isinstance(error, InfraError) and left > 0 and not out.done():
                start()
            elif error is not None:
                out.set_exception(error)
            else:
                out.set_result(inner.result())
        except concurrent.futures.InvalidStateError:
            pass  # it was canceled meanwhile
        except BaseException as e:  # the client was closed
            if not out.done():
                out.set_exception(e)

    start()
    return out


def nothing() -> Result:
    """The result of an answer without code that could run."""
    return Result({"outcome": "failed", "message": "the answer has no code that could run"})
