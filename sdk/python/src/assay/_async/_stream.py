"""Results, one after another."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from .._result import Result
from .._tables import row, to_arrow, to_pandas


class AsyncResultStream:
    """Results as they come. A with statement closes the stream when the caller stops early."""

    def __init__(self, results: AsyncIterator[Result]) -> None:
        self._results = results

    def __aiter__(self) -> AsyncResultStream:
        return self

    async def __anext__(self) -> Result:
        return await self._results.__anext__()

    async def aclose(self) -> None:
        """Closes the stream: no more results are requested."""
        close: Any = getattr(self._results, "aclose", None)
        if close is not None:
            await close()

    async def __aenter__(self) -> AsyncResultStream:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def to_list(self) -> list[Result]:
        """All results, in memory."""
        return [result async for result in self]

    async def to_pandas(self) -> Any:
        """All results as a data frame, a row each. Without pandas it raises ImportError with installation
        instructions."""
        return to_pandas([row(result) async for result in self])

    async def to_arrow(self) -> Any:
        """All results as an Arrow table, a row each. Without pyarrow it raises ImportError with installation
        instructions."""
        return to_arrow([row(result) async for result in self])
