"""The waits of jobs, and the choices of callers about them."""

from __future__ import annotations

from typing import Literal, TypeAlias

OnWait: TypeAlias = 'Literal["raise", "warn", "ignore"]'
"""About jobs that no connected worker can run: raise NoWorkerError, warn once, or wait."""

NEEDS = "needs"
"""The wait of a job that needs a larger or better equipped worker than any connected one."""

LOOK = 2.0
"""Seconds without a result after which a call reads why its jobs wait."""

LONGEST = "24h"
"""The longest time in the queue for a job of run without a timeout: its client may have died."""


def checked(on_wait: OnWait) -> OnWait:
    """The choice; ValueError if it is none."""
    if on_wait not in ("raise", "warn", "ignore"):
        raise ValueError("on_wait: must be 'raise', 'warn' or 'ignore'")
    return on_wait


def expiring(timeout: float | None) -> str:
    """The longest time in the queue for a job of run: after it, no caller waits for the job."""
    return LONGEST if timeout is None or timeout > 86_000 else f"{int(timeout) + 60}s"
