"""Builds the API's jobs from code, commands or whole jobs."""

from __future__ import annotations

import base64
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from ._arguments import LabelValue, labeled, mapped, text
from ._jobvalues import encode_job, encode_python
from ._values import Tagged
from .models import JobSpec, Policy
from .models._model import to_json

Program: TypeAlias = "str | Sequence[str] | Mapping[str, Any] | JobSpec | Tagged"
"""A program: Python code, a command as a list of its words, or a whole job as in the API."""

PolicyLike: TypeAlias = "Mapping[str, Any] | Policy | str"
"""A policy, or the name of a stored policy."""

SCRIPT = "/workspace/main.py"
"""Path of code with a stdin, which runs as a script."""


def job(
    program: Program,
    *,
    language: str | None = None,
    variables: Mapping[str, Any] | None = None,
    stdin: str | None = None,
    files: Mapping[str, str | bytes | Path] | None = None,
    policy: PolicyLike | None = None,
    image: str | None = None,
    name: str | None = None,
    labels: Mapping[str, LabelValue] | None = None,
    spec: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """A job as in the API.

    Args:
        program: Python code, a command as a list, or a whole job, over which the other arguments are laid.
        language: of the code, if it is not Python or is to run as a script of its own: a name or alias of the fleet's
            catalogue, such as "cpp" (client.api.list_languages). Code in compiled languages is compiled, once for equal
            code.
        variables: of the code, with their exact types; docs/grading.md lists the types. Code with a stdin or a language
            has none.
        stdin: the program's input. Code with a stdin runs as a script: its last expression has no value.
        files: absolute path in the sandbox to text or bytes, or to the pathlib.Path of a local file, which is read.
        policy: the program's permissions and limits; see docs/policy.md. Durations are such as "10s", sizes such as
            "256Mi".
        image: the program's file system; default "python".
        name: of the job, at most 256 characters.
        labels: of the job, at most 64.
        spec: further fields of the job, such as {"priority": 10, "cache": True}.

    Raises:
        TypeError, ValueError: an argument is invalid, or the arguments contradict each other.
    """
    for what, value in (("language", language), ("stdin", stdin), ("image", image), ("name", name)):
        text(what, value)
    if variables is not None:
        variables = mapped("variables", variables, '{"x": 1}')
    out = _base(program, variables, stdin) if language is None else _code(program, language, variables, stdin)
    if given := mapped("files", files, '{"/workspace/in.txt": "hello"}'):
        out["files"] = {**out.get("files", {}), **{path: content(path, data) for path, data in given.items()}}
    if policy is not None and not isinstance(policy, (Mapping, Policy, str)):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f'policy: is {type(policy).__name__}, and must be a dict such as {{"wall": "10s"}}, or a name')
    for field, value in (("policy", policy), ("image", image), ("name", name)):
        if value is not None:
            out[field] = to_json(value)
    if labels:
        out["labels"] = {**(out.get("labels") or {}), **labeled(labels)}
    return {**out, **to_json(mapped("spec", spec, '{"priority": 10}'))}


def _base(program: Program, variables: Mapping[str, Any] | None, stdin: str | None) -> dict[str, Any]:
    if isinstance(program, (Mapping, JobSpec, Tagged)):
        if variables is not None or stdin is not None:
            raise TypeError("variables and stdin are of code: a whole job has them in its program")
        if isinstance(program, Mapping) and "program" not in program:
            raise ValueError(
                "a job as a mapping needs a program, such as {'program': {'python': {'code': 'print(1)'}}}"
            )
        return encode_job(program)
    if isinstance(program, str):
        if stdin is None:
            python: dict[str, Any] = {"code": program}
            if variables is not None:
                python["variables"] = variables
            return {"program": {"python": encode_python(python)}}
        if variables is not None:
            raise TypeError("code with a stdin runs as a script, which has no variables: write them to stdin")
        command = {"argv": ["python3", SCRIPT], "stdin": stdin}
        return {"program": {"command": command}, "files": {SCRIPT: {"text": program}}}
    if callable(program):
        raise TypeError(
            "a function cannot be sent to a sandbox: give its source, as text, and its arguments as variables"
        )
    if isinstance(program, (bytes, bytearray)) or not isinstance(program, Sequence):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(
            f"a program is code (str), a command (a list of str) or a job (a dict), not {type(program).__name__}"
        )
    if variables is not None:
        raise TypeError("a command has no variables: give it arguments, or files")
    argv = list(program)
    if not argv:
        raise TypeError("a command is a list of one str or more")
    for i, word in enumerate(argv):
        if not isinstance(word, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"a command is a list of str, and its word {i} is {type(word).__name__}")
    return {"program": {"command": {"argv": argv, **({} if stdin is None else {"stdin": stdin})}}}


def _code(program: Program, language: str, variables: Mapping[str, Any] | None, stdin: str | None) -> dict[str, Any]:
    if not isinstance(program, str):
        raise TypeError("language is of code, as text: a whole job has it in its program")
    if variables is not None:
        raise TypeError("code in a language runs as a script, which has no variables: write them to stdin")
    return {
        "program": {"code": {"language": language, "source": program, **({} if stdin is None else {"stdin": stdin})}}
    }


def content(path: str, data: str | bytes | Path) -> dict[str, str]:
    """A file of a job."""
    if not path.startswith("/"):
        raise ValueError(f"files: {path!r} must be an absolute path in the sandbox, such as /workspace/in.txt")
    if isinstance(data, os.PathLike):
        data = Path(data).read_bytes()
    if isinstance(data, str):
        return {"text": data}
    if not isinstance(data, (bytes, bytearray, memoryview)):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"files: {path!r} is {type(data).__name__}, and must be str, bytes or a pathlib.Path")
    return {"base64": base64.b64encode(data).decode()}
