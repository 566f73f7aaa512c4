"""The tests of a check: a function check(candidate), functions and methods as pytest and unittest would find them.

Standard library only, for Python 3.8 and later.
"""

import sys


def tests(own, candidate):
    """Names and functions to call, one after the other, of what a check has defined."""
    if callable(own.get("check")):
        yield "check", lambda: _run(own["check"], candidate)
    for name, value in own.items():
        if name.startswith("test") and type(value) is type(tests):
            if value.__code__.co_argcount - len(value.__defaults__ or ()) == 0:
                yield name, lambda value=value: _run(value)
            elif value.__code__.co_varnames[:1] == ("candidate",) and value.__code__.co_argcount == 1:
                yield name, lambda value=value: _run(value, candidate)
    if "unittest" in sys.modules:
        import unittest

        for name, value in own.items():
            if isinstance(value, type) and issubclass(value, unittest.TestCase):
                for test in unittest.defaultTestLoader.loadTestsFromTestCase(value):
                    yield test.id().partition(".")[2], _unittest(test)


def _run(test, *args):
    """Run a test to its end, which that of a coroutine function is when it was awaited."""
    if getattr(test, "__code__", None) and test.__code__.co_flags & 0x80:  # CO_COROUTINE
        import asyncio

        return asyncio.run(test(*args))
    return test(*args)


def _unittest(test):
    def run():
        import unittest

        result = unittest.TestResult()
        errors = []
        result.addError = result.addFailure = lambda t, err: errors.append(err[1])
        result.addSubTest = lambda t, s, err: errors.append(err[1]) if err else None
        test.run(result)
        if errors:
            raise errors[0]
        if result.testsRun != 1 or result.skipped or result.expectedFailures or result.unexpectedSuccesses:
            raise AssertionError("the test did not run to its end")

    return run
