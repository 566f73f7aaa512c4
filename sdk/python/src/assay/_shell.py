"""Scripts for the shell of a session: a command with a directory, an environment and an input of its own."""

from __future__ import annotations

import re
import shlex
import uuid
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, cast

INLINE = 32 << 10
"""Most bytes of input within the script. Longer input is a file in the sandbox."""

LONGEST = 96 << 10
"""Most bytes of a script; the kernel takes 128 KiB. A longer script is a file in the sandbox."""

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class Script(NamedTuple):
    """The executed text, and the files that it needs and removes."""

    text: str
    files: dict[str, bytes]


def script(
    command: str | Sequence[str],
    stdin: str | bytes | None = None,
    cwd: str | None = None,
    env: Mapping[str, str] | None = None,
) -> Script:
    """The script for a command.

    A command with an input, a directory or an environment of its own runs in a subshell. TypeError and ValueError
    name invalid arguments.
    """
    files: dict[str, bytes] = {}
    text = words(command)
    if stdin is not None or cwd is not None or env:
        text = _fed(_subshell(text, cwd, env or {}), stdin, files)
    if len(text.encode("utf-8", "surrogateescape")) > LONGEST:
        path = _place("script")
        files[path] = f"rm -f {path}; {text}\n".encode("utf-8", "surrogateescape")
        text = f". {path}"
    return Script(text, files)


def words(command: str | Sequence[str]) -> str:
    """A command as a script."""
    if isinstance(command, str):
        if "\0" in command:
            raise ValueError("command: a script has no NUL characters")
        if not command.strip():
            raise ValueError("command: must not be empty")
        return command
    given: Any = command
    if not isinstance(given, (list, tuple)) or not all(isinstance(w, str) for w in cast("list[Any]", given)):
        raise TypeError("command: a script (str), or the words of a command (a list of str)")
    if not command:
        raise ValueError("command: must not be empty")
    return words(shlex.join(command))


def _subshell(text: str, cwd: str | None, env: Mapping[str, str]) -> str:
    if not isinstance(env, Mapping) or not all(isinstance(v, str) for v in env.values()):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError("env: a mapping of names to str")
    if cwd is not None and not isinstance(cwd, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError("cwd: a directory, as str")
    lines: list[str] = []
    for name, value in env.items():
        if not _NAME.fullmatch(name) or "\0" in value:
            raise ValueError(f"env: {name!r:.80} must be a name, and its value without NUL characters")
        lines.append(f"export {name}={shlex.quote(value)}")
    if cwd is not None:
        lines.append(f"cd -- {shlex.quote(cwd)} || exit")
    return "(\n" + "\n".join([*lines, f"eval {shlex.quote(text)}"]) + "\n)"


def _fed(text: str, stdin: str | bytes | None, files: dict[str, bytes]) -> str:
    """A script with an input."""
    if stdin is None:
        return text
    data = content("stdin", stdin)
    if len(data) <= INLINE and b"\0" not in data:
        try:
            return f"{text} < <(printf %s {shlex.quote(data.decode())})" if data else f"{text} </dev/null"
        except UnicodeDecodeError:
            pass  # a script is text, so the input has to be a file
    path = _place("stdin")
    files[path] = data
    return f"{{ rm -f {path}; {text}\n}} <{path}"


def content(field: str, data: str | bytes) -> bytes:
    """Text or bytes as bytes."""
    if isinstance(data, str):
        return data.encode("utf-8", "surrogateescape")
    if not isinstance(data, (bytes, bytearray, memoryview)):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"{field}: must be str or bytes, not {type(data).__name__}")
    return bytes(data)


def _place(what: str) -> str:
    return f"/tmp/.assay-{what}-{uuid.uuid4().hex}"
