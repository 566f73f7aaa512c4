"""Rewards and their statistics."""

from __future__ import annotations

import math
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, TypeAlias, cast

from ._arguments import LabelValue, labeled, listed
from ._code import code_of, with_imports
from ._errors import APIError
from ._jobvalues import encode_tests, is_object
from ._result import CHECK_ERROR, Result
from ._tables import row, to_pandas
from ._values import Tagged
from .models._model import Model

Tests: TypeAlias = "Mapping[str, Any] | Model | Tagged"
"""The tests of solutions as in the API, but without the code: function, cases, check, stdio, setup …

The args, kwargs and expected of cases are Python values: (1, 2) is a tuple, and {1: 2} a dict with an int as key.
"""

Labels: TypeAlias = "Sequence[Mapping[str, LabelValue]] | Mapping[str, LabelValue]"
"""The labels of each solution, or one dict for all. Numbers become text."""

RewardOf: TypeAlias = 'Literal["score", "pass"] | Callable[[Result], float]'


def reward_of(result: Result, how: RewardOf) -> float | None:
    """The reward of a result; None if the solution has no verdict."""
    score = result.score
    if score is None:
        return None
    if callable(how):
        return float(how(result))
    return score if how == "score" else float(result.ok)


def pass_at_k(n: int, correct: int, k: int) -> float:
    """The probability that one of k solutions passes, if correct of n did: the unbiased estimate, 0 to 1.

    ValueError if k is not from 1 to n, or correct not from 0 to n.
    """
    if not 1 <= k <= n:
        raise ValueError(f"k: must be from 1 to the number of solutions, which is {n}")
    if not 0 <= correct <= n:
        raise ValueError(f"correct: must be from 0 to {n}")
    return 1.0 - math.comb(n - correct, k) / math.comb(n, k)


class Rewards(list["float | None"]):
    """One reward for each solution, in their order; None for a solution without a verdict.

    Attributes:
        results: the result of each, in the same order; None if there was none in time.
        labels: of each.
        retried: number of repeated runs, because of missing verdicts.
    """

    def __init__(
        self,
        rewards: Iterable[float | None],
        results: Sequence[Result | None],
        labels: Sequence[Mapping[str, str]],
        retried: int,
    ) -> None:
        super().__init__(rewards)
        self.results = list(results)
        self.labels = list(labels)
        self.retried = retried

    @property
    def infra(self) -> int:
        """Solutions without a verdict, because of the fleet or lack of time."""
        return sum(r is None or r.infra for r in self.results)

    @property
    def broken(self) -> int:
        """Solutions whose tests failed by themselves: no solution could have passed them."""
        return sum(r is not None and not r.infra and r.score is None for r in self.results)

    @property
    def mean(self) -> float | None:
        """Mean of the known rewards; None if there are none."""
        known = [reward for reward in self if reward is not None]
        return sum(known) / len(known) if known else None

    def groups(self, label: str) -> Iterator[tuple[str, list[Result]]]:
        """The results with a verdict, grouped by a label, in the order of the first occurrence of its values."""
        found: dict[str, list[Result]] = {}
        for labels, result in zip(self.labels, self.results):
            if result is not None and result.score is not None:
                found.setdefault(labels.get(label, ""), []).append(result)
        yield from found.items()

    def pass_at_k(self, k: int, label: str = "problem") -> float:
        """The mean over problems of the probability that one of k solutions passes, 0 to 1.

        label groups the solutions of a problem; it warns about solutions without such a label. Problems with fewer than
        k known solutions are omitted; ValueError if none is left.
        """
        missing = sum(label not in labels for labels in self.labels)
        if missing:
            warnings.warn(
                f"pass_at_k: {missing} of {len(self)} solutions have no label {label!r}, and count as solutions of one "
                f'problem; give grade(…, labels=[{{"{label}": …}}, …])',
                stacklevel=2,
            )
        each = [pass_at_k(len(g), sum(r.ok for r in g), k) for _, g in self.groups(label) if len(g) >= k]
        if not each:
            raise ValueError(f"k: no value of the label {label!r} has {k} solutions about which something is known")
        return sum(each) / len(each)

    def outcomes(self, label: str | None = None) -> dict[str, Counter[str]]:
        """Counts of outcomes, by the value of a label, or all together under ""."""
        found: dict[str, Counter[str]] = {}
        for labels, result in zip(self.labels, self.results):
            value = labels.get(label, "") if label else ""
            found.setdefault(value, Counter())[result.outcome if result else "timeout"] += 1
        return found

    def failures(self) -> Counter[str]:
        """Counts of failure reasons: the outcome of the first failed test, such as timed_out.

        If that is an exception or a wrong answer, it counts the type of the exception, or else the outcome of the
        job.
        """
        found: Counter[str] = Counter()
        for result in self.results:
            if result is not None and not result.ok and result.score is not None:
                exception = result.raw.get("exception")
                case = first_failure(result)
                if case in ("", "failed", "exception", "canceled"):
                    case = exception["type"] if exception else result.outcome
                found[case] += 1
        return found

    def to_pandas(self) -> Any:
        """A row for each solution, with its reward."""
        return to_pandas(
            [
                {
                    **({"index": i} if r is None else row(r)),
                    "reward": reward,
                    **{f"label.{k}": v for k, v in labels.items()},
                }
                for i, (reward, r, labels) in enumerate(zip(self, self.results, self.labels))
            ]
        )


def first_failure(result: Result) -> str:
    """The outcome of the first failed test; "" if none failed."""
    cases: list[dict[str, Any]] = result.part("tests").get("cases") or []
    return next((str(c.get("outcome", "")) for c in cases if not c.get("passed")), "")


class Solutions:
    """Solutions with their tests and labels, as jobs. The defaults are for fields that tests omit."""

    def __init__(
        self,
        solutions: Iterable[str],
        tests: Tests | Iterable[Tests],
        labels: Labels | None,
        defaults: Mapping[str, Any],
        *,
        fenced: bool = False,
        implied_imports: bool = False,
    ) -> None:
        listed("solutions", solutions, "for one solution give [code]")
        if not is_object(tests):
            listed("tests", tests, 'or one dict for all, such as {"function": "f", "cases": […]}')
        code = list(solutions)
        for i, c in enumerate(code):
            if not isinstance(c, str):  # pyright: ignore[reportUnnecessaryIsInstance]
                raise TypeError(f"solutions: number {i} is {type(c).__name__}, and must be code (str)")
        one = is_object(tests)
        each = [cast("Tests", tests)] * len(code) if one else list(cast("Iterable[Tests]", tests))
        self.labels = labels_of_each(labels, len(code))
        for what, n in (("tests", len(each)), ("labels", len(self.labels))):
            if n != len(code):
                raise ValueError(f"{what}: there are {n} for {len(code)} solutions")
        for i, t in enumerate(each):
            if not is_object(t):
                raise TypeError(
                    f"tests[{i}]: is {type(t).__name__}, and must be a dict such as "
                    '{"function": "f", "cases": […]}; assertions go into its check'
                )
        self._code = [code_of(c) or c for c in code] if fenced else code
        self._implied_imports = implied_imports
        encoded = [
            encode_tests(t, "" if one else f"tests[{i}]") for i, t in enumerate([cast("Tests", tests)] if one else each)
        ]
        self._tests = [{**without_rival(defaults, t), **t} for t in encoded]
        self._one = one

    def __len__(self) -> int:
        return len(self._code)

    def unreadable(self) -> dict[int, Result]:
        """The results of solutions with lone surrogates, which no Python file can contain."""
        message = "SyntaxError: the solution has a lone surrogate, which UTF-8 cannot represent"
        found = (i for i, code in enumerate(self._code) if escaped(code) is not code)
        return {i: Result({"outcome": "failed", "message": message}, i) for i in found}

    def job(self, i: int) -> Tagged:
        """The job that grades a solution, with its values encoded."""
        tests = self._tests[0 if self._one else i]
        if self._implied_imports and tests.get("language") in (None, "python"):
            tests = with_imports(tests, self._code[i])
        spec: dict[str, Any] = {"program": {"tests": {**tests, "code": self._code[i]}}}
        if self.labels[i]:
            spec["labels"] = {escaped(str(k)): escaped(str(v)) for k, v in self.labels[i].items()}
        return Tagged(spec)


def labels_of_each(labels: Labels | None, n: int) -> list[dict[str, str]]:
    """The labels of n solutions, from a list with those of each, or one dict for all."""
    if labels is None or isinstance(labels, Mapping):
        return [labeled(labels)] * n
    listed("labels", labels, 'or one dict for all, such as {"problem": "two-sum"}')
    return [labeled(each, f"labels[{i}]") for i, each in enumerate(labels)]


def without_rival(defaults: Mapping[str, Any], tests: Mapping[str, Any]) -> Mapping[str, Any]:
    """The defaults, without a tolerance for tests that have one of another kind."""
    if "absolute_tolerance" in tests or "relative_tolerance" in tests:
        return {k: v for k, v in defaults.items() if k != "tolerance"}
    return defaults


def escaped(text: str) -> str:
    """The text itself, or with its lone surrogates written as escapes."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "backslashreplace").decode()
    return text


CODE = "program.tests.code"
"""The job field that holds the solution."""


def failed(result: Result, error: APIError) -> Result:
    """The result of a solution that the fleet refuses, such as an empty one: no such program could pass."""
    why = error.errors[0].get("problem", "is no program") if error.errors else "is no program"
    return Result({"outcome": "failed", "message": f"the solution {why}"}, result.index, result.item)


def worth_another(result: Result | None) -> bool:
    """Whether to run a solution again: it has no verdict, and its tests are not the cause."""
    return result is None or (result.infra and result.outcome != CHECK_ERROR)
