"""Results that wait for their turn, in memory as long as their total is small."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from typing import IO, Any

from ._result import Result

HELD_BYTES = 32 << 20
"""Bytes of output after which large results wait in a temporary file."""

LARGE = 4096
"""Bytes of output of a large result."""


class Held:
    """Results by position."""

    def __init__(self) -> None:
        self._here: dict[int, Result] = {}
        self._away: dict[int, tuple[int, int, Any]] = {}  # offset in the file, number of bytes, item
        self._bytes = 0
        self._file: IO[bytes] | None = None

    def __contains__(self, position: int) -> bool:
        return position in self._here or position in self._away

    def __len__(self) -> int:
        return len(self._here) + len(self._away)

    def put(self, result: Result) -> None:
        size = len(result.stdout) + len(result.stderr)
        if size < LARGE or self._bytes + size <= HELD_BYTES:
            self._here[result.index] = result
            self._bytes += size
            return
        if self._file is None:
            self._file = tempfile.TemporaryFile()  # noqa: SIM115
        offset = self._file.seek(0, 2)
        length = self._file.write(json.dumps(result.raw).encode())
        self._away[result.index] = offset, length, result.item

    def pop(self, position: int) -> Result:
        if position in self._here:
            result = self._here.pop(position)
            self._bytes -= len(result.stdout) + len(result.stderr)
            return result
        offset, length, item = self._away.pop(position)
        assert self._file is not None
        self._file.seek(offset)
        return Result(json.loads(self._file.read(length)), position, item)

    def drain(self) -> Iterator[Result]:
        """All of them, in any order."""
        for position in [*self._here, *self._away]:
            yield self.pop(position)

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
