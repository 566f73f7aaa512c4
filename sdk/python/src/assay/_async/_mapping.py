"""The part of a session that only one kind has: a synchronous session has its variables as a mapping."""

from __future__ import annotations


class AsyncMapped:
    """Empty: reading an item of a mapping cannot be awaited. Use get, set and names."""
