"""Extracts code from answers of models, and has the imports that such code often omits."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

MAX_CODE = 1 << 20
"""Most bytes of code that the fleet accepts."""

MODULES = (
    *("string", "re", "datetime", "collections", "heapq", "bisect", "copy", "math", "random", "statistics"),
    *("itertools", "functools", "operator", "io", "sys", "json", "builtins", "typing"),
)
"""Modules that solutions of common data sets use without an import, as in their original environment."""

SETUP = "".join(f"from {m} import *\n" for m in MODULES) + f"import {', '.join(MODULES)}\nsys.setrecursionlimit(600000)"


def code_of(answer: str) -> str | None:
    """The code in an answer: its last block of Python, else its first block, else all of it. None if it cannot run."""
    if "```python" in answer:
        code = answer.split("```python")[-1].split("```")[0]
    elif "```" in answer:
        code = answer.split("```")[1]
        language, newline, rest = code.partition("\n")
        code = rest if newline and language.strip().isalpha() else code
    else:
        code = answer
    try:
        size = len(code.encode())
    except UnicodeEncodeError:
        return None
    return code if code.strip() and "\0" not in code and size <= MAX_CODE else None


def setup_without(names: list[str]) -> str:
    """SETUP without names that the solution should define."""
    return f"{SETUP}\nfor name in {names}: globals().pop(name, None)"


def with_imports(tests: Mapping[str, Any], code: str) -> dict[str, Any]:
    """Tests with SETUP before their own setup.

    Programs of stdio that import from __future__ get none, since that import must come first in a program.
    """
    names = [n for n in (tests.get("function"), *(tests.get("functions") or ())) if isinstance(n, str)]
    if not names and re.search(r"^from __future__ ", code, re.MULTILINE):
        return dict(tests)
    own = tests.get("setup")
    setup = setup_without(names) if names else SETUP
    return {**tests, "setup": f"{setup}\n{own}" if own else setup}
