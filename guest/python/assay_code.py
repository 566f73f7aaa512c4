"""What both ends of a graded solution do with code.

They compile it, flush its output, find the line at which it raised an exception,
and rebuild that exception at the other end. assay_wire encodes exceptions; nothing
here reads from a stream. Standard library only, for Python 3.8 and later.
"""

import builtins
import sys

from assay_wire import MAX_TEXT


def new_module(name):
    """A fresh module to run code in."""
    module = type(sys)(name)
    module.__builtins__ = builtins
    sys.modules[name] = module
    return module


def without_mark(code):
    """code without the mark of its encoding, which is no part of a file's text."""
    return code[1:] if code.startswith("\ufeff") else code


def compile_code(code, filename):
    code = without_mark(code)
    try:
        import linecache

        linecache.cache[filename] = (len(code), None, code.splitlines(True), filename)
    except ImportError:
        pass
    return compile(code, filename, "exec", dont_inherit=True)


def forget_code(*filenames):
    import linecache

    for name in filenames:
        linecache.cache.pop(name, None)


_fflush = None


def flush():
    """Flush the output that Python and C have buffered. It never raises.

    os._exit and signals skip C's own flush, so output of ctypes or of an extension
    would be lost. Without ctypes there is no way to call fflush.
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


# What both sides grade in their warm_up: some of what a job will do.
SAMPLE = """
import math
from typing import List

def f(x: List[int], more=0) -> List[int]:
    \"\"\" Add more to each. \"\"\"
    return [i if i is more else (i, more) for i in x]
"""


def line_in(e, filename):
    """The last line of filename that an exception passed, 0 if none."""
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
    """Makes exceptions out of what the other sandbox says about one."""

    made = {}
    # Only what a solution might raise on purpose: a class that a test runner
    # gives a meaning of its own, such as unittest.SkipTest, must not be among them.
    modules = "json json.decoder decimal struct binascii re queue configparser csv statistics zlib copy fractions asyncio.exceptions asyncio.queues".split()
    # What ends a loop or the interpreter in silence ends it as an error here.
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
        except BaseException:  # it takes other arguments than it keeps
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
