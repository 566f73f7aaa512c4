"""Sets variables of an interpreter before each execution, and sends large ones only once."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from typing import Any

from ._interpreter import Interpreter

#: Total characters of JSON above which variables are kept in the session.
LARGE = 256 << 10
#: Characters of a piece of a large variable: its JSON is below the limit of 16 MiB.
PIECE = 2 << 20

#: JSON that some parsers on the way reject: it is sent as text, and parsed in the session.
_ODD = re.compile(r"NaN|Infinity|\\u0000|\\ud[89a-f]")

# Without an import for text values, since the policy may have rules for imports.
_SETUP = """
_assay_kept = {}


def _assay_keep(digest, count):
    _assay_kept[digest] = "".join(globals().pop("_assay_piece_%d" % i) for i in range(count))


def _assay_bind(kept, read):
    for digest in list(_assay_kept):
        if digest not in kept.values():
            del _assay_kept[digest]
    for name, digest in kept.items():
        globals()[name] = read(_assay_kept[digest]) if digest[:1] == "j" else _assay_kept[digest]
"""
_BIND = "_assay_bind(_assay_digests, None)"
_BIND_JSON = "import json as _assay_json\n_assay_bind(_assay_digests, _assay_json.loads)"


class Inputs:
    """Sets the same variables before each execution, even if code has changed them."""

    def __init__(self, interpreter: Interpreter) -> None:
        self._interpreter = interpreter
        self._kept: set[str] = set()
        self._ready = False

    def bind(self, variables: Mapping[str, Any]) -> dict[str, Any]:
        """Sets large variables; returns the others, to be sent with the execution.

        json.dumps must accept the values. The session must be started.
        """
        texts = {name: json.dumps(value) for name, value in variables.items()}
        odd = {name for name, text in texts.items() if _ODD.search(text)}
        if sum(map(len, texts.values())) <= LARGE and not odd:
            return dict(variables)
        self._prepare()
        digests: dict[str, str] = {}
        for name, value in variables.items():
            whole = isinstance(value, str) and name not in odd
            digests[name] = ("s" if whole else "j") + hashlib.sha256(texts[name].encode()).hexdigest()
            if digests[name] not in self._kept:
                self._keep(digests[name], value if whole else texts[name])
        self._kept &= set(digests.values())
        read = any(d[0] == "j" for d in digests.values())
        self._call(_BIND_JSON if read else _BIND, {"_assay_digests": digests})
        return {}

    def _prepare(self) -> None:
        if not self._ready:
            self._call(_SETUP, {})
            self._ready = True

    def _keep(self, digest: str, text: str) -> None:
        pieces = [text[i : i + PIECE] for i in range(0, len(text), PIECE)]
        for i, piece in enumerate(pieces):
            self._interpreter.set(f"_assay_piece_{i}", piece)
        given = {"_assay_digest": digest, "_assay_count": len(pieces)}
        self._call("_assay_keep(_assay_digest, _assay_count)", given)
        self._kept.add(digest)

    def _call(self, code: str, variables: Mapping[str, Any]) -> None:
        self._interpreter.run(code, variables).check()
