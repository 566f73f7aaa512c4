"""Durations in the API's format, and deadlines."""

from __future__ import annotations

import re
import time
from datetime import timedelta

_PART = re.compile(r"(\d+(?:\.\d*)?|\.\d+)(ns|us|µs|ms|s|m|h)")
_SECONDS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}


def seconds(text: str) -> float:
    """Parses a Go duration, such as 1m30s; ValueError if it is none."""
    sign, rest = (-1.0, text[1:]) if text.startswith("-") else (1.0, text)
    if rest == "0":
        return 0.0
    if not rest or _PART.sub("", rest):
        raise ValueError(f"{text!r} is not a duration such as 1.5s or 2m")
    return sign * sum(float(n) * _SECONDS[unit] for n, unit in _PART.findall(rest))


def duration(value: float | str | timedelta) -> str:
    """A duration in the API's format, from seconds, a timedelta, or a duration."""
    if isinstance(value, str):
        seconds(value)
        return value
    number = value.total_seconds() if isinstance(value, timedelta) else float(value)
    return f"{number:.9f}".rstrip("0").rstrip(".") + "s"


class Deadline:
    """A common deadline for all work of a call. A call without one waits as long as its jobs take."""

    __slots__ = ("at", "given")

    def __init__(self, timeout: float | None) -> None:
        if timeout is not None and timeout <= 0:
            raise ValueError("timeout: must be a positive number of seconds, or None")
        self.given = timeout
        self.at = None if timeout is None else time.monotonic() + timeout

    def left(self, most: float) -> float:
        """Remaining seconds, at most `most` and at least 0."""
        return most if self.at is None else max(min(most, self.at - time.monotonic()), 0.0)

    @property
    def over(self) -> bool:
        return self.at is not None and time.monotonic() >= self.at
