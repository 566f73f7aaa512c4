"""The variables of a session as a mapping."""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from typing import TYPE_CHECKING, Any

from ._errors import GoneError, InvalidError, NotFoundError, TooLargeError

if TYPE_CHECKING:
    from ._sync._session import Session


class Variables(MutableMapping[str, Any]):
    """The namespace of a session: each access is a request. Iteration has the listed names, at most 200."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def __getitem__(self, name: str) -> Any:
        try:
            return self._session.get(name)
        except (GoneError, TooLargeError):
            raise
        except (NotFoundError, InvalidError, ValueError):
            raise KeyError(name) from None

    def __setitem__(self, name: str, value: Any) -> None:
        self._session.set(name, value)

    def __delitem__(self, name: str) -> None:
        if name not in self:
            raise KeyError(name)
        self._session.run(f"del {name}").check()

    def __iter__(self) -> Iterator[str]:
        return iter(self._session.names())

    def __len__(self) -> int:
        return len(self._session.names())

    def __contains__(self, name: object) -> bool:
        if not isinstance(name, str):
            return False
        try:
            self[name]
        except KeyError:
            return False
        except TooLargeError:
            return True
        return True

    def __repr__(self) -> str:
        return f"<variables of {self._session!r}>"
