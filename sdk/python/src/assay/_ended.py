"""The common base of results of jobs and executions."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

from ._decoding import decode


class Ended:
    """The end of a job or an execution, over the JSON of the API. Fields are decoded on access.

    Attributes:
        raw: all of it as JSON. Do not change it.
    """

    __slots__ = ("raw",)

    def __init__(self, raw: Mapping[str, Any]) -> None:
        self.raw = raw

    def part(self, name: str) -> dict[str, Any]:
        """A field of raw that is an object; empty if it is missing."""
        return self.raw.get(name) or {}

    @property
    def id(self) -> str:
        """Its id in the fleet."""
        return self.raw.get("id", "")

    @property
    def outcome(self) -> str:
        """How it ended: succeeded, failed, exception, timed_out, out_of_memory and so on (models.Outcome)."""
        return self.raw.get("outcome", "")

    @property
    def message(self) -> str:
        """One sentence for a person, or ""."""
        return self.raw.get("message", "")

    @property
    def ok(self) -> bool:
        """Whether the outcome is succeeded."""
        return self.outcome == "succeeded"

    @property
    def exit_code(self) -> int | None:
        """Of the program, or of code that called sys.exit; None if there was none."""
        return self.raw.get("exit_code")

    @property
    def stdout(self) -> str:
        """Text on stdout; of a long output, its head and its tail (see record.stdout)."""
        return self.part("stdout").get("text", "")

    @property
    def stderr(self) -> str:
        """Text on stderr, with the traceback of an exception; a long one as in stdout."""
        return self.part("stderr").get("text", "")

    @property
    def stdout_bytes(self) -> bytes:
        """The bytes of stdout, even if they are not UTF-8. Of a long output, its head and its tail as text."""
        return exact(self.part("stdout"))

    @property
    def stderr_bytes(self) -> bytes:
        """The bytes of stderr, as in stdout_bytes."""
        return exact(self.part("stderr"))

    @property
    def value(self) -> Any:
        """Value of the code's last expression, or its repr, if the value is of a type that cannot cross (see
        docs/grading.md). None if there is none."""
        return shown(self.raw.get("value"))


def exact(output: Mapping[str, Any]) -> bytes:
    """The bytes of an output of the API."""
    data = output.get("base64")
    return output.get("text", "").encode("utf-8", "replace") if data is None else base64.b64decode(data)


def shown(value: Mapping[str, Any] | None) -> Any:
    """A value of the API, or its repr if the value is of a type that cannot cross; None if there is none."""
    if value is None or "json" in value:
        return value and value["json"]
    if "tagged" in value:
        try:
            return decode(value["tagged"])
        except Exception:  # the sandbox may send anything, or numpy may be missing here
            pass
    return value.get("repr")


def json_or_repr(value: Mapping[str, Any] | None) -> Any:
    """A value of the API as plain JSON, or its repr, for frameworks that pass it on as JSON; None if there is none."""
    return None if value is None else value["json"] if "json" in value else value.get("repr")
