"""Handle code at both ends of a graded solution.

The functions compile code, flush its output, find the line that raised an exception, and rebuild this exception at
the other end. assay_wire encodes exceptions; this module reads no streams. Standard library only, for Python 3.8 and
later.
"""

import builtins
import sys

from assay_wire import MAX_TEXT

try:
    import linecache
except ImportError:
    linecache = None


def new_module(name):
    """Return a new module in which to run code."""
    module = type(sys)(name)
    module.__builtins__ = builtins
    sys.modules[name] = module
    return module


def without_mark(code):
    """Return code without its byte order mark, which is not part of the text."""
    return code[1:] if code.startswith("\ufeff") else code


def compile_code(code, filename):
    code = without_mark(code)
    if linecache:
        linecache.cache[filename] = (len(code), None, code.splitlines(True), filename)
    return compile(code, filename, "exec", dont_inherit=True)


def forget_code(*filenames):
    for name in filenames:
        linecache.cache.pop(name, None)


_fflush = None


def flush():
    """Flush the output buffers of Python and C. It never raises.

    os._exit and signals skip C's own flush, so output of ctypes or of an extension would be lost. Without ctypes
    there is no way to call fflush.
    """
    global _fflush
    for name in "stdout", "stderr":
        try:
            getattr(sys, name).flush()
        except BaseException:
            pass
    if _fflush is None:
        if "_ctypes" not in sys.modules:
            return
        try:
            import ctypes

            _fflush = ctypes.CDLL(None).fflush
        except BaseException:
            return
    try:
        _fflush(None)
    except BaseException:
        pass


# Sample code that both sides grade in warm_up: typical operations of jobs.
SAMPLE = """
import math
from typing import List

def f(x: List[int], more=0) -> List[int]:
    \"\"\" Add more to each. \"\"\"
    return [i if i is more else (i, more) for i in x]
"""


def line_in(e, filename):
    """Return the last line of filename in an exception's traceback, or 0."""
    if isinstance(e, SyntaxError) and e.filename == filename:
        return e.lineno or 0
    line = 0
    tb = e.__traceback__
    while tb is not None:
        if tb.tb_frame.f_code.co_filename == filename:
            line = tb.tb_lineno
        tb = tb.tb_next
    return line


class Errors:
    """Creates exceptions from the other sandbox's reports."""

    made = {}
    # Only exceptions that a solution might raise deliberately. Exceptions with a special meaning for test runners,
    # such as unittest.SkipTest, must be excluded.
    modules = "json json.decoder decimal struct binascii re queue configparser csv statistics zlib copy fractions asyncio.exceptions asyncio.queues".split()
    # Exceptions that silently end a loop or the interpreter become errors here.
    silent = (StopIteration, StopAsyncIteration, GeneratorExit)

    @classmethod
    def make(cls, said, codec, iterating=False, returned=False):
        name, message = str(said.get("type"))[:200], str(said.get("message"))[:MAX_TEXT]
        kind = cls.find(name, said, codec)
        ends = {True: StopIteration, "async": StopAsyncIteration}.get(iterating)
        if name == "CancelledError" and said.get("module") == "asyncio.exceptions" and iterating == "async":
            kind = sys.modules["asyncio"].CancelledError
        if issubclass(kind, cls.silent) and not returned and kind is not ends:
            kind, message = RuntimeError, "the solution raised " + name
        elif kind is SystemExit:
            kind = cls.derive("SystemExit", SystemExit)
        try:
            args = [codec.decode(a) for a in said.get("args") or []]
            e = kind(*args) if args else kind(message) if message else kind()
        except BaseException:  # its arguments differ from its attributes
            try:
                e = kind.__new__(kind)
                e.args = (message,)
            except BaseException:
                e = cls.derive(name, Exception if issubclass(kind, Exception) else BaseException)(message)
        if isinstance(e, AssertionError):
            e.__dict__["_assay_told"] = True
        return e

    @classmethod
    def find(cls, name, said, codec):
        module = said.get("module")
        shared = codec.shared.get(name)
        if module == "solution" and isinstance(shared, type) and issubclass(shared, BaseException):
            return shared
        if module in cls.modules and module in sys.modules:
            found = getattr(sys.modules[module], name, None)
            if isinstance(found, type) and issubclass(found, Exception):
                return found
        mro = said.get("mro")
        for i, base in enumerate(mro if type(mro) is list else []):
            found = getattr(builtins, base, None) if type(base) is str else None
            if isinstance(found, type) and issubclass(found, BaseException):
                return found if i == 0 and module == "builtins" else cls.derive(name, found)
        return cls.derive(name, Exception)

    @classmethod
    def derive(cls, name, base):
        key = name, base
        if key not in cls.made:
            try:
                cls.made[key] = type(name, (base,), {"__module__": "solution"})
            except BaseException:
                cls.made[key] = base
        return cls.made[key]
