"""Resets objects in the child of a fork: locks that another thread held, and connections of the parent."""

from __future__ import annotations

import os
import weakref
from typing import Protocol


class Forked(Protocol):
    def forked(self) -> None: ...


_known: weakref.WeakSet[Forked] = weakref.WeakSet()


def after_fork(it: Forked) -> None:
    """Registers it for a call of it.forked() in every child, as long as it exists."""
    _known.add(it)


def _in_child() -> None:
    for it in list(_known):
        it.forked()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)
