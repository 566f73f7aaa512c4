"""Objects of a check that its solution uses by reference, and the allowed operations.

A solution can call a function, iterate over an iterator, and use an object: its public attributes, its items, and the
with statement. It cannot access names with a leading underscore, which lead to the check's code, or the records of a
Mock.

Standard library only, for Python 3.8 and later.
"""

import functools
import operator
import sys
import types

from assay_wire import cut, type_name

FUNCTIONS = (
    types.FunctionType, types.MethodType, types.BuiltinFunctionType, type(str.join), type([].__len__), type(list.__len__), type,
    functools.partial, type(functools.lru_cache(maxsize=None)(len)),
)  # fmt: skip

# The modules whose instances are used by reference; __main__ is the check's.
MODULES = frozenset(
    "__main__ unittest io _io contextlib re functools threading _thread tempfile logging queue operator itertools collections codecs csv _csv".split()
)


def kind(value):
    """Return how the solution uses an object: function, iterator, object or callable; None if not at all."""
    cls = type(value)
    if isinstance(value, FUNCTIONS):
        code = getattr(getattr(value, "__func__", value), "__code__", None)
        return "coroutine function" if code is not None and code.co_flags & 0x80 else "function"
    module = cls.__module__.partition(".")[0] if type(cls.__module__) is str else ""
    if hasattr(cls, "__next__") and not hasattr(cls, "read") and not hasattr(cls, "write") and not _is_mock(value):
        return "iterator"
    if module in MODULES and not _is_test(value):
        return "callable" if callable(value) else "object"
    return "function" if callable(value) else None


def _is_test(value):
    return "unittest" in sys.modules and isinstance(value, sys.modules["unittest"].TestCase)


class Next:
    """An iterator of the check, as a function."""

    def __init__(self, it):
        self.it = it

    def __call__(self):
        try:
            return [next(self.it)]
        except StopIteration:
            return []


def error(e):
    """Return the report of an exception."""
    kind = type(e)
    return {
        "type": type_name(kind), "module": kind.__module__, "mro": [type_name(k) for k in kind.__mro__],
        "message": cut(str(e), 500), "args": [a for a in e.args if type(a) in (int, str, float, bool)][:10] if len(e.args) <= 10 else [],
    }  # fmt: skip


def method(value, name):
    """Return a function that performs one operation of DO on an object."""
    if kind(value) not in ("object", "callable"):
        raise AttributeError("a function of the tests can only be called")
    do = DO[name]
    return lambda *args: do(value, *args)


def _allowed(value, name):
    if type(name) is not str or name[:1] == "_" or name in _recorded(value):
        raise AttributeError("%r object has no attribute %r" % (type(value).__name__, name))
    return name


def _recorded(value):
    """Return the attributes of a Mock that are private to the check."""
    if not _is_mock(value):
        return ()
    if not _mock_names:
        _mock_names.update(dir(sys.modules["unittest.mock"].Mock()))
    return _mock_names


def _is_mock(value):
    mock = sys.modules.get("unittest.mock")
    return mock is not None and isinstance(value, mock.NonCallableMock)


_mock_names = set()


def _set(value, name, x):
    """Set an attribute, which must not hide a method."""
    usual = getattr(type(value), _allowed(value, name), None)
    if callable(usual) or callable(x):
        raise AttributeError("%r object attribute %r is read-only" % (type(value).__name__, name))
    setattr(value, name, x)


def _exit(value, e):
    return bool(type(value).__exit__(value, None if e is None else type(e), e, None))


def _iterate(value):
    return iter(value)


DO = {
    "get": lambda x, name: getattr(x, _allowed(x, name)), "set": _set, "len": len, "iter": _iterate, "bool": bool, "str": str, "repr": repr,
    "getitem": operator.getitem, "setitem": operator.setitem, "delitem": operator.delitem, "contains": operator.contains,
    "enter": lambda x: type(x).__enter__(x), "exit": _exit, "eq": operator.eq, "lt": operator.lt, "add": operator.add, "next": lambda x: Next(x)(),
}  # fmt: skip
