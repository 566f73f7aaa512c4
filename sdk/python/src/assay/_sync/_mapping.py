"""The part of a session that only one kind has: a synchronous session has its variables as a mapping."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from .._variables import Variables

if TYPE_CHECKING:
    from ._session import Session


class Mapped:
    """A session with its variables as a mapping."""

    @property
    def variables(self) -> Variables:
        """The namespace as a mapping: s.variables["x"] = 1, len(s.variables), "x" in s.variables."""
        return Variables(cast("Session", self))
