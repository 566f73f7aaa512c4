"""Chunks of items that client.map submits together."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from ._arguments import LabelValue
from ._errors import APIError
from ._result import Result
from ._units import Seconds
from ._waiting import OnWait, checked

CHUNK_BYTES = 4 << 20
"""Bytes of jobs after which a chunk ends."""


@dataclass(frozen=True, slots=True)
class MapOptions:
    """The options of client.map, which documents them."""

    order: Literal["input", "completed"]
    on_error: Literal["raise", "return"]
    key: str | None
    timeout: Seconds | None
    fields: Iterable[str] | None
    chunk: int
    window: int
    name: str | None
    labels: Mapping[str, LabelValue] | None
    label_caps: Mapping[str, int] | None
    defaults: dict[str, Any]
    lease: Seconds | None
    on_wait: OnWait = "raise"
    note: Callable[[str], None] | None = None  # instead of the progress of this map
    chunk_bytes: int = CHUNK_BYTES

    def __post_init__(self) -> None:
        if self.order not in ("input", "completed"):
            raise ValueError("order: must be 'input' or 'completed'")
        checked(self.on_wait)
        if self.on_error not in ("raise", "return"):
            raise ValueError("on_error: must be 'raise' or 'return'")
        if self.chunk < 1 or self.window < self.chunk:
            raise ValueError("chunk: must be 1 or more, and window no less than that")
        if self.key is not None and not 1 <= len(self.key) <= 200:
            raise ValueError("key: has 1 to 200 characters")


class Chunk:
    """Items that become one batch."""

    __slots__ = ("batch", "bytes", "items", "lines", "positions", "start")

    def __init__(self, start: int) -> None:
        self.start = start
        self.batch = ""
        self.items: dict[int, Any] = {}  # by position, until they have a result
        self.lines: list[bytes] = []
        self.positions: list[int] = []  # of the lines
        self.bytes = 0

    def add(self, position: int, item: Any, line: bytes) -> None:
        self.items[position] = item
        self.lines.append(line)
        self.positions.append(position)
        self.bytes += len(line) + 1

    def drop(self, line: int) -> int:
        """Removes a line, numbered from 1, and returns its position."""
        del self.lines[line - 1]
        return self.positions.pop(line - 1)

    def body(self) -> bytes:
        return b"\n".join(self.lines) + b"\n"


def refused(error: APIError, position: int, item: Any) -> Result:
    """The result of an item that the fleet refused."""
    error.args = (f"item {position}: {error.without_line}",)
    return Result({"outcome": "refused", "message": str(error)}, position, item, error)
