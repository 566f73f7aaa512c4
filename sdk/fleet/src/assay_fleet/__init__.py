"""The programs of Assay for Linux: `assay`, and the programs that `assay dev` starts."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import NoReturn

__all__ = ["main", "program"]


def program(name: str = "assay") -> Path:
    """Path of a program: assay, dispatcher, guest or worker. FileNotFoundError if there is none of that name."""
    path = Path(__file__).resolve().parent / "bin" / name
    if not path.is_file():
        raise FileNotFoundError(f"{path} is not there: install assay-exec-fleet again, from a wheel for this platform")
    return path


def main() -> NoReturn:
    """Executes assay in this process, with its arguments."""
    path = program()
    try:
        os.execv(path, [str(path), *sys.argv[1:]])
    except OSError as e:  # another architecture, or a file system mounted noexec
        sys.exit(f"assay: {path} cannot be executed here: {e.strerror}")
