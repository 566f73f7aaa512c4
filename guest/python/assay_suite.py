"""Find the tests of a check: a function check(candidate), and the tests of pytest and unittest.

Standard library only, for Python 3.8 and later.
"""

import sys


def functions(own, candidate):
    """Yield a name and a callable for each test outside of unittest.TestCase.

    own holds the names that the check has defined.
    """
    if callable(own.get("check")):
        yield "check", lambda: _run(own["check"], candidate)
    for name, value in own.items():
        if name.startswith("test") and type(value) is type(functions):
            if value.__code__.co_argcount - len(value.__defaults__ or ()) == 0:
                yield name, lambda value=value: _run(value)
            elif value.__code__.co_varnames[:1] == ("candidate",) and value.__code__.co_argcount == 1:
                yield name, lambda value=value: _run(value, candidate)
        elif name.startswith("Test") and isinstance(value, type) and "__init__" not in vars(value) and not _is_unittest(value):
            for method in dir(value):
                if method.startswith("test") and callable(getattr(value, method)):
                    yield name + "." + method, lambda value=value, method=method: _run_method(value, method)


def _run(test, *args):
    """Run a test to its end, including its coroutine."""
    if getattr(test, "__code__", None) and test.__code__.co_flags & 0x80:  # CO_COROUTINE
        import asyncio

        return asyncio.run(test(*args))
    return test(*args)


def _run_method(kind, name):
    """Run a test method of a plain class, between its setup_method and teardown_method."""
    test = kind()
    if hasattr(test, "setup_class"):
        test.setup_class()
    if hasattr(test, "setup_method"):
        _with_method(test.setup_method, getattr(test, name))
    try:
        _run_bound(getattr(test, name))
    finally:
        if hasattr(test, "teardown_method"):
            _with_method(test.teardown_method, getattr(test, name))
        if hasattr(test, "teardown_class"):
            test.teardown_class()


def _run_bound(method):
    value = method()
    if hasattr(value, "__await__"):
        import asyncio

        asyncio.run(value)


def _with_method(hook, method):
    """Call a hook of pytest, whose argument is optional."""
    code = getattr(hook, "__code__", None)
    hook(method) if code and code.co_argcount > 1 else hook()


def _is_unittest(kind):
    return "unittest" in sys.modules and issubclass(kind, sys.modules["unittest"].TestCase)


def skipped(e):
    """Report whether an exception skips a test."""
    return "unittest" in sys.modules and isinstance(e, sys.modules["unittest"].SkipTest)


def suite(own):
    """Return the unittest.TestSuite of a check, as unittest would load it, or None if it has no TestCase."""
    if "unittest" not in sys.modules:
        return None
    import unittest

    found = unittest.TestSuite()
    loader = unittest.defaultTestLoader
    bases = unittest.TestCase, unittest.FunctionTestCase
    for _, value in sorted(own.items()):
        if isinstance(value, type) and issubclass(value, unittest.TestCase) and value not in bases:
            found.addTest(loader.loadTestsFromTestCase(value))
    if callable(own.get("load_tests")):
        found = own["load_tests"](loader, found, None)
    return found if found.countTestCases() else None


def run_suite(tests, side):
    """Run a unittest.TestSuite with its fixtures, and report each test to side.

    side is an assay_check.Check. A test prevented by a failed or skipped fixture gets the verdict of this fixture.
    """
    all_tests = list(_flat(tests))
    result = _result(side)
    try:
        tests.run(result)
    except KeyboardInterrupt:  # unittest propagates it; the following tests fail
        pass
    for test in all_tests:
        if id(test) not in result.started:
            side.begin()
            why = result.fixtures.get(_class_name(test)) or result.fixtures.get(type(test).__module__)
            e, skip, side.last = why or (AssertionError("unittest did not run the test"), "", None)
            side.conclude(_name(test), 0, e, skip)
    for name, e in result.teardowns:
        side.conclude(name, 0, e, "")
    if side.fault is not None:
        side.conclude("fixtures", 0, side.fault, "")


def _flat(tests):
    try:
        inner = list(tests)
    except TypeError:
        yield tests
        return
    for test in inner:
        yield from _flat(test)


def _name(test):
    return test.id().partition(".")[2]


def _class_name(test):
    return "%s.%s" % (type(test).__module__, type(test).__qualname__)


def _result(side):
    import time
    import unittest

    class Result(unittest.TestResult):
        """Reports each test to side when it stops."""

        def __init__(self):
            unittest.TestResult.__init__(self)
            self.started = set()
            self.fixtures = {}  # by class or module: exception, reason for a skip, last call of the solution
            self.teardowns = []

        def startTest(self, test):
            self.testsRun += 1
            self.started.add(id(test))
            side.begin()
            self.began = time.monotonic()
            self.found, self.parts, self.reason, self.ended = [], [], "", False

        def stopTest(self, test):
            if not self.ended and not self.found:  # an exception that unittest propagates
                self.found.append(sys.exc_info()[1] or AssertionError("the test did not come to its end"))
            for e in self.found:
                if isinstance(e, side.ends):
                    raise e
            e = self.found[0] if self.found else None
            if self.parts and e is not None:
                _append(e, "in %s" % ", ".join(self.parts))
            side.conclude(_name(test), time.monotonic() - self.began, e, "" if e is not None else self.reason)

        def addSuccess(self, test):
            self.ended = True

        def addError(self, test, err):
            if isinstance(test, unittest.suite._ErrorHolder):
                self.fixture(test, err[1], "")
            else:
                self.found.append(err[1])

        addFailure = addError

        def fixture(self, holder, e, reason):
            kind, _, where = holder.id().partition(" (")
            if isinstance(e, side.ends):
                raise e
            if kind.startswith("setUp"):
                self.fixtures[where.rstrip(")")] = e, reason, side.last
            elif e is not None:
                self.teardowns.append((holder.id(), e))

        def addSubTest(self, test, subtest, err):
            if err is not None:
                self.found.append(err[1])
                self.parts.append(subtest._subDescription())

        def addSkip(self, test, reason):
            if isinstance(test, unittest.suite._ErrorHolder):
                self.fixture(test, *side.skip(reason))
                return
            self.ended = True
            if id(test) in self.started:  # and not a subtest
                e, self.reason = side.skip(reason)
                if e is not None:
                    self.found.append(e)

        def addExpectedFailure(self, test, err):
            self.ended = True
            if isinstance(err[1], side.ends):
                self.found.append(err[1])

        def addUnexpectedSuccess(self, test):
            self.found.append(AssertionError("the test succeeded, and was expected to fail"))

    return Result()


def _append(e, text):
    """Append text to the message of an exception."""
    try:
        e.args = ("%s (%s)" % (e, text) if str(e) else text,)
    except BaseException:
        pass
