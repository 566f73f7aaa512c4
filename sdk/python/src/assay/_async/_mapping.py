"""What only one of the two kinds of session has: the synchronous one has its variables as a mapping."""

from __future__ import annotations


class AsyncMapped:
    """Nothing: to read an item of a mapping cannot be awaited. There are get, set and names."""
