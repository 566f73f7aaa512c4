"""Turns at a session: its executions run one after another."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

from .._calls import call, segment
from .._errors import AssayError
from .._units import Deadline
from ._concurrency import Changed, finish
from ._transport import FOREVER, AsyncTransport

AGAIN = 0.1
"""Seconds after which a wait is interrupted again: it may not have begun at the first interrupt."""

TELL = 5.0
"""Seconds that an interrupt may take."""


class AsyncTurns:
    """Turns of the operations of one session.

    An operation that waits for something in the session yields to the others: it is interrupted. An interrupt is
    answered before the next turn begins, so that it affects no other operation.
    """

    def __init__(self, transport: AsyncTransport) -> None:
        self.session = ""
        self._transport = transport
        self._changed = Changed()
        self._holder: object | None = None  # of the turn
        self._waiting: object | None = None  # the holder, if it yields
        self._wanted: set[object] = set()  # requested turns that will not wait for news
        self._telling: object | None = None

    @asynccontextmanager
    async def turn(self, gives_way: bool = False) -> AsyncGenerator[None, None]:
        """The next turn. gives_way: after its work it waits for something, and then yields to others."""
        me = object()
        self._wanted.add(me)
        pause = 0.0
        try:
            while not await self._enter(me, pause, gives_way):
                await self._give_way(me)
                pause = AGAIN
            yield
        except BaseException:
            await self._abandon(me)
            raise
        finally:
            await self._leave(me)

    @asynccontextmanager
    async def waiting(self, news: Callable[[], bool], deadline: Deadline = FOREVER) -> AsyncGenerator[bool, None]:
        """A turn that yields, once no other turn is wanted. False: there is news, or the deadline is over."""
        me = object()
        try:
            yield await self._enter_waiting(me, news, deadline)
        except BaseException:
            await self._abandon(me)
            raise
        finally:
            await self._leave(me)

    async def _abandon(self, me: object) -> None:
        """Ends the wait of a turn without a waiting caller."""
        if self._waiting is me:
            await self._give_way(me)

    async def _enter(self, me: object, pause: float, gives_way: bool) -> bool:
        async with self._changed:
            if not await self._changed.until(self._free, pause):
                return False
            self._holder = me
            self._waiting = me if gives_way else None
            self._wanted.discard(me)
            return True

    async def _enter_waiting(self, me: object, news: Callable[[], bool], deadline: Deadline) -> bool:
        def ready() -> bool:
            return news() or (self._free() and not self._wanted)

        async with self._changed:
            while not deadline.over:
                if await self._changed.until(ready, deadline.left(60.0)):
                    if news():
                        return False
                    self._holder = self._waiting = me
                    return True
            return False

    def _free(self) -> bool:
        return self._holder is None and self._telling is None

    async def _leave(self, me: object) -> None:
        async with self._changed:
            self._wanted.discard(me)
            if self._holder is me:
                self._holder = self._waiting = None
            self._changed.notify()

    async def _give_way(self, me: object) -> None:
        """Interrupts the holder of the turn, if it yields."""
        async with self._changed:
            if self._waiting is None or self._telling is not None:
                return
            self._telling = me
        await finish(self._interrupt)

    async def _interrupt(self) -> None:
        try:
            c = call("POST", f"/v1/sessions/{segment(self.session)}/interrupt", once=True)
            await self._transport.send(c, Deadline(TELL))
        except AssayError:
            pass  # the wait ends soon by itself
        finally:
            async with self._changed:
                self._telling = None
                self._changed.notify()
