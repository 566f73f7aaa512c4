"""Durations in the API's format, and deadlines."""

from __future__ import annotations

import re
import time
from datetime import timedelta
from typing import Any, TypeAlias

Seconds: TypeAlias = "float | str | timedelta"
"""A time: a number of seconds, a duration such as "1.5s", or a timedelta."""

_PART = re.compile(r"(\d+(?:\.\d*)?|\.\d+)(ns|us|µs|ms|s|m|h)")
_SECONDS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}


def seconds(text: str) -> float:
    """Parses a Go duration, such as 1m30s; ValueError if it is none."""
    sign, rest = (-1.0, text[1:]) if text.startswith("-") else (1.0, text)
    if rest == "0":
        return 0.0
    if not rest or _PART.sub("", rest):
        raise ValueError(f"{text!r:.80} is not a duration: units are ms, s, m and h, such as 1.5s or 1h30m")
    return sign * sum(float(n) * _SECONDS[unit] for n, unit in _PART.findall(rest))


def duration(value: Seconds, name: str = "duration") -> str:
    """A duration in the API's format, from seconds, a timedelta, or a duration."""
    given = number(name, value)
    return value if isinstance(value, str) else f"{given:.9f}".rstrip("0").rstrip(".") + "s"


def number(name: str, value: Seconds | None) -> float | None:
    """An argument as seconds, None if it is None. TypeError or ValueError name the argument."""
    if value is None:
        return None
    given: Any = value
    if isinstance(given, str):
        try:
            return seconds(given)
        except ValueError as e:
            raise ValueError(f"{name}: {e}") from None
    if isinstance(given, timedelta):
        return given.total_seconds()
    if isinstance(given, bool) or not hasattr(given, "__float__"):
        raise TypeError(f'{name}: is {type(given).__name__}, and must be seconds, or a duration such as "1.5s"')
    return float(given)


def positive(name: str, value: Seconds | None) -> float | None:
    """The same; ValueError unless it is positive."""
    out = number(name, value)
    if out is not None and not out > 0:
        raise ValueError(f"{name}: must be positive, or None")
    return out


class Deadline:
    """A common deadline for all work of a call. A call without one waits as long as its jobs take."""

    __slots__ = ("at", "given")

    def __init__(self, timeout: Seconds | None, name: str = "timeout") -> None:
        self.given = positive(name, timeout)
        self.at = None if self.given is None else time.monotonic() + self.given

    def left(self, most: float) -> float:
        """Remaining seconds, at most `most` and at least 0."""
        return most if self.at is None else max(min(most, self.at - time.monotonic()), 0.0)

    @property
    def over(self) -> bool:
        return self.at is not None and time.monotonic() >= self.at
