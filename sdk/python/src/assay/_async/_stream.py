"""Results, one after another."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from .._result import Result
from .._tables import row, to_arrow, to_pandas


class AsyncResultStream:
    """Results as they come. Whoever stops early closes it, which a with statement does."""

    def __init__(self, results: AsyncIterator[Result]) -> None:
        self._results = results

    def __aiter__(self) -> AsyncResultStream:
        return self

    async def __anext__(self) -> Result:
        return await self._results.__anext__()

    async def aclose(self) -> None:
        """Ends it: nothing is asked for any more."""
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
        """All results as a data frame, a row each. ImportError says how pandas is installed."""
        return to_pandas([row(result) async for result in self])

    async def to_arrow(self) -> Any:
        """All results as a table of Arrow, a row each. ImportError says how pyarrow is installed."""
        return to_arrow([row(result) async for result in self])
