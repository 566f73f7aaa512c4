"""Progress reports: a bar of rich or tqdm if one is installed, else a line on stderr."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from importlib import import_module
from typing import Any, Protocol, TypeAlias

from ._result import Result

Progress: TypeAlias = "bool | str | Callable[[int, int | None, Result], object] | None"
"""True or a title, for a bar; or a function of the number of finished jobs, the total (None if unknown), and the
result."""


class Reporter(Protocol):
    """Receives each result, the reason why jobs wait, and the end."""

    def update(self, result: Result) -> None: ...

    def note(self, text: str) -> None: ...

    def close(self) -> None: ...


class Silent:
    """Reports nothing."""

    def update(self, result: Result) -> None:
        pass

    def note(self, text: str) -> None:
        """Shows why jobs wait; "": they do not."""

    def close(self) -> None:
        pass


class Called(Silent):
    """Calls a function of the user."""

    def __init__(self, function: Callable[[int, int | None, Result], object], total: int | None) -> None:
        self._function, self._total, self._done = function, total, 0

    def update(self, result: Result) -> None:
        self._done += 1
        self._function(self._done, self._total, result)


class Rich(Silent):
    """A bar of rich."""

    def __init__(self, title: str, total: int | None) -> None:
        progress: Any = import_module("rich.progress")
        columns = [
            progress.TextColumn("{task.description}"), progress.BarColumn(), progress.MofNCompleteColumn(),
            progress.TimeElapsedColumn(),
        ]  # fmt: skip
        self._bar = progress.Progress(*columns, console=import_module("rich.console").Console(stderr=True))
        self._title, self._task = title, self._bar.add_task(title, total=total)
        self._bar.start()

    def update(self, result: Result) -> None:
        self._bar.advance(self._task)

    def note(self, text: str) -> None:
        self._bar.update(self._task, description=f"{self._title} ({text})" if text else self._title)

    def close(self) -> None:
        self._bar.stop()


class Tqdm(Silent):
    """A bar of tqdm."""

    def __init__(self, title: str, total: int | None) -> None:
        self._bar: Any = import_module("tqdm.auto").tqdm(desc=title, total=total)

    def update(self, result: Result) -> None:
        self._bar.update(1)

    def note(self, text: str) -> None:
        self._bar.set_postfix_str(text)

    def close(self) -> None:
        self._bar.close()


class Line(Silent):
    """A line on stderr, at most every second."""

    def __init__(self, title: str, total: int | None) -> None:
        self._title, self._total, self._done, self._told = title, total, 0, time.monotonic()
        self._noted = ""

    def update(self, result: Result) -> None:
        self._done += 1
        if time.monotonic() - self._told >= 1 or self._done == self._total:
            self._told = time.monotonic()
            print(f"{self._title}: {self._done} of {self._total or 'unknown'}", file=sys.stderr)

    def note(self, text: str) -> None:
        if text and text != self._noted:
            print(f"{self._title}: {self._done} of {self._total or 'unknown'}; {text}", file=sys.stderr)
        self._noted = text


def reporter(progress: Progress, total: int | None) -> Reporter:
    """The reporter for a progress argument."""
    if not progress:
        return Silent()
    if callable(progress):
        return Called(progress, total)
    title = progress if isinstance(progress, str) else "jobs"
    for module, bar in (("rich", Rich), ("tqdm", Tqdm)):
        try:
            import_module(module)
        except ImportError:
            continue
        return bar(title, total)
    return Line(title, total)
