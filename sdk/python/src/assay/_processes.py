"""Common parts of both sandboxes: reports of processes, the default policy, and messages to the code inside."""

from __future__ import annotations

import base64
import errno
import posixpath
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, cast

from ._arguments import mapped
from ._errors import PROBLEMS, AssayError, ConflictError
from ._jobs import PolicyLike
from ._units import seconds
from .models import Execute, Policy, to_json

SANDBOX_POLICY: Mapping[str, Any] = {
    "memory": "1Gi", "disk": "512Mi", "files": 65536, "processes": 256, "open_files": 1024, "cpu_time": "1h",
}  # fmt: skip
"""Default limits of a sandbox. They are higher than a job's, as a sandbox serves as a machine.

Files are in memory, so disk counts for memory, too. cpu_time is between two operations, and ends the sandbox.
"""

IDLE = 3600.0
"""Seconds without an operation after which a sandbox ends: its user may think for a long time."""

LONGEST = 10.0
"""Seconds for which one execution waits in the session."""

MOST = 64 << 20
"""Most bytes of each stream that are kept for a client without a limit of its own."""

SMALL = 256 << 10
"""Most bytes within an operation; larger data is transferred beside it."""

STAGED = 8 << 20
"""Most bytes beside an operation, as in the code inside."""

MODULE = "assay_inside"
OPERATION = "_assay_op"
SOURCE = "_assay_source"
CODE = f"__import__('sys').modules['{MODULE}.keeper'].do({OPERATION})"
INSTALL = f"""
def _assay_install():
    import sys, types
    if "{MODULE}" in sys.modules:
        return
    sys.modules["{MODULE}"] = types.ModuleType("{MODULE}")
    sys.modules["{MODULE}"].__path__ = []
    for name, text in {SOURCE}:
        module = sys.modules["{MODULE}." + name] = types.ModuleType("{MODULE}." + name)
        module.__package__ = "{MODULE}"
        exec(compile(text, "<assay>", "exec"), module.__dict__)

_assay_install()
{CODE}"""


@cache
def source() -> list[list[str]]:
    """The modules of the code inside, each with its text."""
    return [[name, (Path(__file__).parent / "_inside" / f"{name}.py").read_text()] for name in ("process", "keeper")]


@dataclass(frozen=True, slots=True)
class Completed:
    """The end of a command, and its output.

    Attributes:
        argv: the words of the command.
        exit_code: as in subprocess: negative after a signal, -9 after a timeout.
        stdout, stderr: bytes, up to the limit of each.
        timed_out: its timeout ended it, with all of its processes.
        truncated: it wrote more than the limit to a stream and was ended; the output above the limit is missing.
    """

    argv: tuple[str, ...]
    exit_code: int
    stdout: bytes
    stderr: bytes
    timed_out: bool = False
    truncated: bool = False

    @property
    def ok(self) -> bool:
        """Whether it ended by itself with 0."""
        return self.exit_code == 0 and not self.timed_out and not self.truncated


class Running:
    """The state of a process in a sandbox."""

    def __init__(self, argv: list[str]) -> None:
        self.argv = argv
        self.id = uuid.uuid4().hex
        self.report: Mapping[str, Any] = {"code": None}  # the last one
        self.taken = {"stdout": 0, "stderr": 0}  # bytes already read
        self.wanted = False  # whether its caller waits for output, too
        self.readable = False
        self.inline = False  # whether the report has unread output

    @property
    def code(self) -> int | None:
        return self.report["code"]

    def tell(self, report: Mapping[str, Any] | None) -> None:
        if report is not None:
            self.report = report
            self.readable = any(report[s]["end"] > self.taken[s] for s in self.taken)
            self.inline = any("data" in report[s] for s in self.taken)

    def news(self, output: bool) -> bool:
        """Whether it has ended or, if output is set, has written output."""
        return self.code is not None or (output and self.readable)


def words(argv: str | Sequence[str]) -> list[str]:
    """A command as a list; text is a command for sh. TypeError or ValueError if it is invalid."""
    if isinstance(argv, str):
        return ["sh", "-c", argv]
    given: Any = argv
    if not isinstance(given, (list, tuple)) or not all(isinstance(a, str) for a in cast("list[Any]", given)):
        raise TypeError("argv: a command is a text for sh, or a list of str")
    if not argv:
        raise ValueError("argv: a command has one word or more")
    return list(argv)


def environment(env: Mapping[str, str] | None) -> dict[str, str]:
    """A copy. TypeError if a name or a value is no text."""
    out = mapped("env", env, '{"LANG": "C"}')
    for name, value in out.items():
        if not isinstance(value, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"env[{name!r}]: is {type(value).__name__}, and must be str")
    return out


def octets(data: bytes | bytearray | memoryview | str) -> bytes:
    """Bytes, or text as UTF-8."""
    return data.encode() if isinstance(data, str) else bytes(data)


def below(directory: str, path: str | None) -> str:
    """A path in a sandbox; if it is relative, below a directory."""
    return posixpath.join(directory, path) if path else directory


def limited(name: str, value: float | None) -> None:
    if value is not None and not value > 0:
        raise ValueError(f"{name}: must be a positive number, or None")


def sandbox_policy(policy: PolicyLike | None) -> Any:
    """The policy of a sandbox, laid over SANDBOX_POLICY. The name of a stored policy is returned unchanged."""
    if isinstance(policy, str):
        return policy
    given = policy.to_dict() if isinstance(policy, Policy) else to_json(policy or {})
    return {**SANDBOX_POLICY, **given}


def patience(policy: Any) -> float:
    """Seconds for which one execution may wait in a session of this policy. ValueError: it cannot run processes."""
    given = cast("dict[str, Any]", policy) if isinstance(policy, dict) else {}
    imports: dict[str, Any] = given.get("imports") or {}
    if imports.get("allow") or imports.get("deny"):
        raise ValueError("policy.imports: a sandbox cannot have rules for imports: nothing would keep its processes")
    if given.get("subprocesses") is False:
        raise ValueError("policy.subprocesses: a sandbox that may start nothing is of no use")
    return min(LONGEST, seconds(given["wall"]) / 3) if "wall" in given else LONGEST


def inline(data: bytes) -> dict[str, str]:
    return {"data": base64.b64encode(data).decode("ascii")}


def executed(e: Execute) -> dict[str, Any] | None:
    """The answer of the code inside; None if it was interrupted before it did anything.

    Raises:
        ConflictError: the session has ended.
        AssayError: the code failed, as programs in the sandbox have changed something that it needs.
    """
    if not e.alive:
        raise ConflictError(
            409, {"type": PROBLEMS + "conflict", "detail": e.message or f"the session has ended: {e.outcome}"}
        )
    answer: Any = e.value.json if e.value is not None else None
    if e.outcome == "succeeded" and isinstance(answer, dict):
        return cast("dict[str, Any]", answer)
    if e.outcome in ("canceled", "timed_out") or (e.exception or {}).get("type") == "KeyboardInterrupt":
        return None
    raise AssayError(f"the sandbox does not answer as it should: {e.outcome}: {e.message}: {e.exception}")


def checked(answer: Mapping[str, Any]) -> Mapping[str, Any]:
    """The answer. An error inside is raised: OSError with its errno, or ValueError."""
    kind = answer.get("error")
    if kind == "os":
        number = getattr(errno, answer["errno"], errno.EIO)
        raise OSError(number, answer["text"], *([answer["file"]] if answer["file"] else []))
    if kind:
        raise ValueError(answer["text"])
    return answer
