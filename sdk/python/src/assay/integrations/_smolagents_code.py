"""Code that an executor of smolagents runs in its session before an agent's code."""

from __future__ import annotations

import inspect

from smolagents import serialization

#: Sets the variables in _assay_given.
VARIABLES = """
globals().update(_deserialize(_assay_given))
del _assay_given
"""

#: Lists the names in _assay_asked that are neither a module nor a distribution.
MISSING = """
def _assay_missing(names):
    import importlib.metadata
    import importlib.util

    def there(name):
        try:
            return importlib.util.find_spec(name) is not None
        except (ImportError, ValueError):
            return False

    def installed(name):
        try:
            return importlib.metadata.distribution(name) is not None
        except (importlib.metadata.PackageNotFoundError, ValueError):
            return False

    return [name for name in names if not there(name) and not installed(name)]


_assay_missing(_assay_asked)
"""

#: The package's serializer for values, whose source is _assay_source; and functions that use it.
SERIALIZER = """
_assay_calls = globals().get("_assay_calls", {})
_assay_serial = {"__name__": "_assay_serial"}
exec(_assay_source, _assay_serial)


def _assay_host_tool(name):
    def tool(*args, **kwargs):
        serializer = _assay_serial["SafeSerializer"]
        return serializer.loads(_assay_calls[name](serializer.dumps([list(args), kwargs])))

    tool.__name__ = tool.__qualname__ = name
    return tool


class _AssayFinalAnswer(BaseException):
    pass


def _assay_ends(tool):
    def final_answer(*args, **kwargs):
        given = tool(*args, **kwargs)
        globals()["_assay_final_answer"] = _assay_serial["SafeSerializer"].dumps(given)
        raise _AssayFinalAnswer("the run is over")

    return final_answer
"""


def serializer() -> str:
    """The package's serialization module, as text; it needs only the standard library."""
    return inspect.getsource(serialization)
