"""Exceptions. They are about the request, the fleet and the caller's own deadlines.

A program that failed is data, a result.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from ._execution import Execution
    from ._result import Result

LINE = re.compile(r"^line \d+: ")
"""The beginning of a text that names the line of a batch."""

PROBLEMS = "https://assay.run/problems/"


class AssayError(Exception):
    """Base of all exceptions of this package, except ValueError and TypeError about arguments."""


class APIError(AssayError):
    """The fleet refused a request, or failed at it.

    Attributes:
        status: HTTP status.
        code: kind of the problem in the API's table, such as "invalid"; "" if the answer was not the fleet's.
        title: meaning of the kind.
        detail: the fault and its remedy, for a person.
        field: path of the first field at fault, such as "policy.memory"; "" if none is named.
        line: line of a batch, from 1, with that field; 0 if none is named.
        errors: every field at fault.
        request_id: trace id of the request in the fleet's logs; "" if there is none.
        retry_after: seconds after which the same request may succeed, or None.
    """

    def __init__(self, status: int, body: Mapping[str, Any] | None = None, retry_after: float | None = None) -> None:
        problem: Mapping[str, Any] = body or {}
        self.status = status
        self.code = str(problem.get("type", "")).removeprefix(PROBLEMS)
        self.title = str(problem.get("title", ""))
        self.detail = str(problem.get("detail", ""))
        self.errors: list[dict[str, Any]] = [dict(e) for e in cast("list[dict[str, Any]]", problem.get("errors") or [])]
        first = self.errors[0] if self.errors else {}
        self.field = str(first.get("field", ""))
        self.line = int(first.get("line", 0))
        self.request_id = str(problem.get("instance", ""))
        self.retry_after = retry_after
        text = self.detail or self.title or f"HTTP {status}"
        if self.code == "unauthorized":
            text += "; give a token as Client(token=…) or ASSAY_TOKEN"
        super().__init__(f"{text} (trace {self.request_id})" if status >= 500 and self.request_id else text)

    @property
    def without_line(self) -> str:
        """The text without the line of a batch, for callers whose jobs were no lines."""
        return LINE.sub("", str(self))

    @property
    def passing(self) -> bool:
        """Whether the same request may succeed later: the fleet is busy, or not ready."""
        return isinstance(self, (UnavailableError, QuotaError)) and not self.errors

    def __reduce__(self) -> tuple[Any, ...]:
        body = {"type": PROBLEMS + self.code, "title": self.title, "detail": self.detail, "errors": self.errors}
        return type(self), (self.status, {**body, "instance": self.request_id}, self.retry_after)


class InvalidError(APIError):
    """The request is invalid; field, line and detail name the fault."""


class TooLargeError(InvalidError):
    """Something is too large."""


class DigestError(InvalidError):
    """A body does not match its digest: it was changed on its way."""


class KeyUsedError(InvalidError):
    """The idempotency key was used before, for another request."""


def reused(error: KeyUsedError, key: str | None) -> KeyUsedError:
    """The same error with the caller's own key in its text."""
    error.args = (f"key: {key!r} was used before for other items, options or chunks; use another key",)
    return error


class MethodError(InvalidError):
    """The address does not accept such requests: it probably belongs to another server."""


class AuthError(APIError):
    """The token is missing or invalid."""


class RefusedError(APIError):
    """The tenant's ceiling or role does not allow this."""


class NotFoundError(APIError):
    """It does not exist, or not for this tenant."""


class GoneError(NotFoundError):
    """It existed and was deleted."""


class ErasedError(GoneError):
    """The idempotency key was used before, for a job or batch that was erased since."""


class ConflictError(APIError):
    """Not possible in the current state: for example, an unfinished batch cannot be retried."""


class StaleError(ConflictError):
    """It has changed since it was read: read it again."""


class LostError(ConflictError):
    """It was abandoned before: its lease is over."""


class QuotaError(APIError):
    """The tenant has or sends too much; retry_after is the number of seconds to wait."""


class UnavailableError(APIError):
    """The fleet is not ready, or too busy."""


class SlowError(UnavailableError):
    """The body of the request arrived too slowly."""


class InternalError(APIError):
    """The fleet failed; request_id names the request in its logs."""


class Unreachable(AssayError, ConnectionError):
    """No answer: the fleet is down, its address is wrong, or the connection broke repeatedly."""


class Timeout(AssayError, TimeoutError):
    """The caller's own deadline is over. The awaited work was canceled, unless the text says otherwise."""


class NoWorkerError(AssayError):
    """No connected worker can run a job: the text has the need that none meets. The job was canceled, unless its call
    had a key."""


class ClosedError(AssayError, RuntimeError):
    """The client was closed before the call, which sent nothing."""


class AnswerTooLarge(AssayError):
    """An answer is larger than this client holds in memory. Download it in pieces, or request fewer fields."""


class ProgramError(AssayError):
    """A program did not succeed. Only Result.check() and Execution.check() raise it.

    Attributes:
        result: the whole result, or execution.
    """

    def __init__(self, result: Result | Execution) -> None:
        self.result = result
        super().__init__(result.summary)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.result,)


class InfraError(ProgramError):
    """A job or an execution did not end by itself, or could not run: lost, expired, canceled, setup_error.

    Its outcome does not depend on the program.
    """


#: Classes of the fleet's kinds of problems, which api/problem.go defines.
KINDS: dict[str, type[APIError]] = {
    "slow-body": SlowError,
    "too-large": TooLargeError,
    "too-many": QuotaError,
    "key-used": KeyUsedError,
    "stale": StaleError,
    "conflict": ConflictError,
    "refused": RefusedError,
    "digest-mismatch": DigestError,
    "invalid": InvalidError,
    "unauthorized": AuthError,
    "method": MethodError,
    "not-found": NotFoundError,
    "gone": GoneError,
    "erased": ErasedError,
    "lost": LostError,
    "unavailable": UnavailableError,
    "timeout": UnavailableError,
    "internal": InternalError,
}

#: The same for answers that are not the fleet's own, such as a proxy's. The 429 of a proxy passes.
STATUSES: dict[int, type[APIError]] = {
    400: InvalidError,
    401: AuthError,
    403: RefusedError,
    404: NotFoundError,
    405: MethodError,
    408: SlowError,
    409: ConflictError,
    410: GoneError,
    412: StaleError,
    413: TooLargeError,
    422: InvalidError,
    429: UnavailableError,
    502: UnavailableError,
    503: UnavailableError,
    504: UnavailableError,
}


def api_error(status: int, body: Mapping[str, Any] | None, retry_after: float | None = None) -> APIError:
    """The error for an answer; body is its problem document, None if it has none."""
    cls = STATUSES.get(status, InternalError)
    if body is not None:
        kind = str(body.get("type", "")).removeprefix(PROBLEMS)
        cls = KINDS.get(kind) or (QuotaError if status == 429 else cls)
    return cls(status, body, retry_after)


class UnsendableError(AssayError, TypeError, ValueError):
    """A value that cannot be sent. Nothing was sent.

    Attributes:
        path: of the part that cannot be sent, such as `cases[3].expected["x"][0]`.
        problem: its fault, and what to send instead.
    """

    def __init__(self, path: str, problem: str) -> None:
        super().__init__(f"{path}: {problem}")
        self.path = path
        self.problem = problem

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.path, self.problem)
