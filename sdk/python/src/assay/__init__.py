"""Runs untrusted programs, one or a million, on a fleet of Assay.

    import assay

    result = assay.run("print(6 * 7)")
    print(result.stdout, result.outcome)

A program that fails is data, a Result. Exceptions are about the request, the fleet, or the caller's own deadline.
"""

from . import models
from ._async._batches import AsyncBatch
from ._async._client import AsyncClient
from ._async._process import AsyncProcess
from ._async._sandbox import AsyncSandbox
from ._async._session import AsyncSession
from ._async._stream import AsyncResultStream
from ._default import default_client, grade, map, run, submit
from ._errors import (
    AnswerTooLarge,
    APIError,
    AssayError,
    AuthError,
    ClosedError,
    ConflictError,
    DigestError,
    ErasedError,
    GoneError,
    InfraError,
    InternalError,
    InvalidError,
    KeyUsedError,
    LostError,
    MethodError,
    NotFoundError,
    NoWorkerError,
    ProgramError,
    QuotaError,
    RefusedError,
    SlowError,
    StaleError,
    Timeout,
    TooLargeError,
    UnavailableError,
    Unreachable,
    UnsendableError,
)
from ._execution import Execution
from ._executor import Executor
from ._grading import Rewards, pass_at_k
from ._jobs import job
from ._processes import SANDBOX_POLICY, Completed
from ._result import BRIEF, Result
from ._sync._batches import Batch
from ._sync._client import Client
from ._sync._process import Process
from ._sync._sandbox import Sandbox
from ._sync._session import Session
from ._sync._stream import ResultStream
from ._sync._submit import Future
from ._values import Tagged
from ._version import __version__

__all__ = [
    "BRIEF",
    "SANDBOX_POLICY",
    "APIError",
    "AnswerTooLarge",
    "AssayError",
    "AsyncBatch",
    "AsyncClient",
    "AsyncProcess",
    "AsyncResultStream",
    "AsyncSandbox",
    "AsyncSession",
    "AuthError",
    "Batch",
    "Client",
    "Completed",
    "ClosedError",
    "ConflictError",
    "DigestError",
    "ErasedError",
    "Execution",
    "Executor",
    "Future",
    "GoneError",
    "InfraError",
    "InternalError",
    "InvalidError",
    "KeyUsedError",
    "LostError",
    "MethodError",
    "NoWorkerError",
    "NotFoundError",
    "Process",
    "ProgramError",
    "QuotaError",
    "RefusedError",
    "Result",
    "ResultStream",
    "Rewards",
    "Sandbox",
    "Session",
    "SlowError",
    "StaleError",
    "Tagged",
    "Timeout",
    "TooLargeError",
    "UnavailableError",
    "Unreachable",
    "UnsendableError",
    "__version__",
    "default_client",
    "grade",
    "job",
    "map",
    "models",
    "pass_at_k",
    "run",
    "submit",
]
