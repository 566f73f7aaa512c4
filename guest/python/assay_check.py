"""The check's side: it runs check code, in which the solution is a reference.

check(fd) runs one check for the worker on a descriptor and reports its verdicts. The solution's side, assay_solution,
answers for references (assay_proxy) in its own sandbox. assay_wire is their common protocol. They use a direct stream
while the solution obeys the protocol, and the worker as a relay afterwards.

Standard library only, for Python 3.8 and later.
"""

import _socket
import os
import select
import sys
import threading
import time

import assay_apart
import assay_async
import assay_fault
import assay_lent
import assay_suite
from assay_code import SAMPLE, Errors, compile_code, forget_code, line_in, new_module
from assay_graph import Calls, GraphCodec, Table
from assay_proxy import ANY, OF_A_CLASS, Awaitable, Candidate, Class, Reference
from assay_wire import MAX_TOKENS, MAX_TRACE, Channel, Codec, Gone, NotData, TooLarge, article, crowded, cut, shared_classes, show, type_name

CHECK = "<check>"
MAX_COST = 1 << 60  # cost of a table that must not be used again


class Lost(Exception):
    """The stream to the solution is broken: "late", "closed" or "protocol"."""


class Link(Channel):
    """The stream to the solution. Its data is untrusted, and may be malformed or missing."""

    def __init__(self, fd, late):
        Channel.__init__(self, fd)
        os.set_blocking(fd, False)
        self.until = 0.0  # on the clock below
        self.late = late  # returns the remaining time
        self.readable, self.writable = select.poll(), select.poll()
        self.readable.register(fd, select.POLLIN)
        self.writable.register(fd, select.POLLOUT)

    def receive(self):
        try:
            m = Channel.receive(self)
            op = m["op"]
            fine = op == "call" or op == "return" and ("value" in m or "graph" in m) or op == "raise" and type(m["exception"]) is dict
            fine = fine and type(m.get("changed", [])) is list and type(m.get("graph", {})) is dict
        except (ValueError, TypeError, LookupError, RecursionError, MemoryError):
            raise Lost("protocol")
        if not fine:
            raise Lost("protocol")
        return m

    def decode(self, data):
        if crowded(data):
            raise ValueError("a frame of more than %d signs" % MAX_TOKENS)
        return Channel.decode(self, data)

    def read(self, size):
        self.wait(self.readable)
        try:
            part = _read(self.fd, size)
        except OSError:
            part = b""
        if not part:
            raise Lost("closed")
        return part

    def write(self, data):
        while True:
            try:
                return _write(self.fd, data)
            except BlockingIOError:
                self.wait(self.writable)
            except OSError:
                raise Lost("closed")

    def wait(self, ready):
        left = self.until - _now()
        while left <= 0 or not ready.poll(left * 1000 + 1):
            left = self.late()
            if left <= 0:
                raise Lost("late")
            self.until = _now() + left


# The check's code may replace these in their modules.
_read, _write, _now, _getpid = os.read, os.write, time.monotonic, os.getpid


class CannotPass(TypeError):
    """The check passes an object that cannot be transferred: no solution could pass the test."""

    def __init__(self, name):
        TypeError.__init__(self, "%s cannot be passed to the solution, which runs in another sandbox: pass plain values, functions, or "
                           'instances of classes of setup, or use "process": "shared"' % article(name))  # fmt: skip


class NeedsOneProcess(Exception):
    """The check performs an action that cannot reach a solution in another process."""

    def __init__(self, why):
        Exception.__init__(self, 'this check needs the process of the solution: %s. Set "process": "shared", or change the check' % why)


class Check:
    ends = Gone  # an exception that ends the whole check

    def __init__(self):
        self.channel = Channel(-1)
        self.link = None
        self.gone = None  # the worker's response when the link was lost
        self.end = 0.0
        # Three decoders: for data, for results of any solution, and for results of a solution with a class under
        # test.
        table = Table()
        self.data = GraphCodec(self._refer, self._only_data, table)
        shared = self.data.shared
        self.plain = Codec(self._refer, self._only_data, shared=shared)  # for the arguments of exceptions
        self.any = GraphCodec(self._refer, lambda tag, v: self._resolve(tag, v, ANY), table, self.data, shared)
        self.of_a_class = GraphCodec(self._refer, lambda tag, v: self._resolve(tag, v, OF_A_CLASS), table, self.data, shared)
        self.codec = self.any
        self.calls_made = Calls(self.any)
        self.asked_class = self.asked_method = False  # kind of the tested function: a class, or a method
        self.exported = {}
        self.ids = {}
        self.lock = threading.RLock()
        self.calls = 0
        self.asked = False  # the solution was used, so later failures may be its fault
        self.asked_by_module = self.asked_by_test = False  # used before the first test; used in this test
        self.lazy = False  # the check awaits the results of the solution's coroutine functions
        self.left = 0  # tests that have not started
        self.process = 0
        self.said = None  # the solution's latest report of an exception
        self.last = None  # the last call: its arguments and result
        self.fault = None  # why the test has failed, regardless of its own result
        self.self_reported = False  # an object of the solution described itself in this test
        self.code = self.setup = ""
        self.share = None  # state of the check that its solution needs
        self.functions = []  # further functions given to the check

    def begin_at(self, fd):
        """Serve the worker at a descriptor, from this process."""
        self.channel.fd, self.process = fd, _getpid()

    # Requests to the solution

    def ask(self, m):
        """Return the solution's response to m: return or raise."""
        self.asked = self.asked_by_test = True
        with self.lock:
            link = self.link
            try:
                return self.exchange(link or self.channel, m)
            except Lost as e:
                return self.lose(link, str(e))
            except TooLarge as e:
                raise ValueError("an argument of the solution is too large: %s" % e)

    def exchange(self, end, m):
        try:
            end.send(m)
            while True:
                m = end.receive()
                if m is None:
                    raise Gone()
                if m["op"] != "call":
                    return m
                end.send(self.callback(m))
        except (Lost, TooLarge):
            raise
        except BaseException:  # from a handler of the check: the response must not be read as the next one's
            if end is self.link:
                self.lose(end, "late")
            raise

    def lose(self, link, why):
        """Report the loss to the worker, which ends the solution's process and decides the consequence."""
        self.calls_made.table.cost = MAX_COST  # the next process has an empty table
        if self.link is link:
            self.link = None
            os.close(link.fd)
            self.channel.send({"op": "lost", "problem": why})
            self.gone = self.channel.receive()
        if self.gone is None:
            raise Gone()
        return self.gone

    def request(self, m, iterating=False):
        m = self.ask(m)
        if m["op"] == "raise":
            raise Errors.make(m["exception"], self.plain, iterating)
        return m

    def value(self, m, iterating=False):
        got = self.request(m, iterating)
        j = got["graph"] if "graph" in got else got["value"]
        return self.decoding(lambda: self.codec.decode(j), "returned")

    def about(self, m):
        """Return an object's description of itself."""
        self.self_reported = True
        return self.value(m)

    def refuse(self, why):
        e = NotData(why)
        self.fault = self.fault or e
        raise e

    def call(self, ref, args, kwargs):
        self.calls += 1
        if self.asked_class and ref or ref < 0:
            self.self_reported = True
        self.said = None
        shown = [show(a, 200) for a in args] + ["%s=%s" % (k, show(v, 200)) for k, v in kwargs.items()]
        self.last = last = [ref, shown, None, None, None, None]
        codec = self.codec
        if self.asked_method and ref == 1:  # the class with the method: the check creates an instance
            codec = self.of_a_class
        try:
            m = {"op": "call", "ref": ref}
            if self.lazy:
                m["lazy"] = True
            if self.share:
                m["share"] = self.share.changes()
            value = self.exchange_call(m, args, kwargs, codec)
        except BaseException as e:
            last[4:] = e, self.said
            raise
        last[3] = show(value, 500)
        self.last = last  # a callback may have made calls as well
        if isinstance(value, Awaitable):
            object.__setattr__(value, "_assay_last", last)
        return value

    async def awaited(self, coroutine):
        """Return the result of a coroutine of the solution as the value of the call that returned it."""
        last = getattr(coroutine, "_assay_last", None)
        try:
            value = await self.perform(coroutine._assay_ref, "await")
        except BaseException as e:
            if last is not None:
                last[4:], self.last = (e, getattr(e, "_assay_said", None)), last
            raise
        if last is not None:
            last[3], self.last = show(value, 500), last
        return value

    def perform(self, ref, what, *args):
        """Return a coroutine that runs an asynchronous operation on an object of the solution."""
        return assay_async.perform(self, ref, what, *args)

    def ended(self, m):
        """Return the ended tasks of the solution: number, value and exception."""
        out = []
        for n, said, packed in self.value(m):
            if said is None:
                out.append((n, packed, None))
                continue
            e = Errors.make(said, self.plain, iterating="async")
            try:
                e._assay_said = said
            except AttributeError:
                pass
            out.append((n, None, e))
        return out

    def exchange_call(self, m, args, kwargs, codec):
        calls = self.calls_made
        m.update(calls.call(args, kwargs, fresh=True))
        try:
            m = self.ask(m)
            values = self.decoding(lambda: calls.answered(m, codec), "returned")
        finally:
            calls.close()
        if m["op"] == "raise":
            self.said = m["exception"]
            raise Errors.make(self.said, self.plain)
        return values[0]

    def decoding(self, decode, how):
        """Decode the solution's message. If it is not data, the test fails even if it ignores the error."""
        try:
            return decode()
        except NotData as e:
            why = "%s %s, which is not data" % ("made of an argument" if hasattr(e, "of_argument") else how, e)
        except (Exception, RecursionError) as e:
            why = "%s a value that cannot be read: %s" % (how, type_name(type(e)))
        self.calls_made.table.cost = MAX_COST  # both ends may number objects differently from now on
        self.refuse(why)

    def callback(self, m):
        """Answer a call of an object that the check passed."""
        calls, called = self.calls_made, False
        try:
            f = self.exported[m["ref"]]
            if "do" in m:
                f = assay_lent.method(f, m["do"])
            args, kwargs = self.decoding(lambda: calls.called(m), "passed to a function of the check")
            called = True
            value = f(*args, **kwargs)
            if hasattr(value, "__await__") and not isinstance(value, Reference):
                    value = assay_async.finish(value)
            return dict(calls.answer(value), op="return")
        except Gone:
            raise
        except BaseException as e:
            # The solution may suppress this exception, but a failed assertion of the check remains a failure.
            if isinstance(e, AssertionError) and not getattr(e, "_assay_told", False):
                self.fault = self.fault or e
            answer = calls.answer() if called else {}
            return dict(answer, op="raise", exception=assay_lent.error(e))
        finally:
            if called:
                calls.close()

    def _refer(self, value):
        if isinstance(value, Reference):
            return {"$back": value._assay_ref}
        if isinstance(value, BaseException):
            return {"$error": assay_lent.error(value)}
        kind = assay_lent.kind(value)
        if kind is None:
            self.fault = self.fault or CannotPass(type_name(type(value)))
            raise self.fault
        if kind == "iterator":
            value = assay_lent.Next(value)
        ref = self.ids.get(id(value))
        if ref is None:
            ref = self.ids[id(value)] = len(self.exported) + 1
            self.exported[ref] = value
        return {"$ref": [ref, kind, ""]}

    def _only_data(self, tag, v):
        raise NotData(article(v[0] if tag == "other" else v[2] if tag == "ref" else tag))

    def _resolve(self, tag, v, kinds):
        if tag == "back":
            return self.exported[v]
        if tag == "error":
            return Errors.make(v, self.plain, returned=True)
        if tag == "ref":
            ref, kind, name = v
            if type(ref) is not int or type(name) is not str:
                raise ValueError("ref")
            if kind in kinds:
                return kinds[kind](self, ref, name)
        return self._only_data(tag, v)

    def late(self):
        """Return the remaining time of the test from the worker, which excludes waits for cores."""
        self.channel.send({"op": "late"})
        m = self.channel.receive()
        return m["left"] if m else 0

    # Verdicts

    def run(self, m):
        self.code = m["check"]
        self.end = _now() + m["wall"]
        if m.get("link"):
            self.link = Link(m["link"], self.late)
            self.link.until = self.end
        module = new_module("__main__")
        names = module.__dict__
        try:
            if m.get("setup"):
                exec(compile_code(m["setup"], "<setup>"), names)
                self.data.shared.update(shared_classes(names, "__main__"))
        except BaseException as e:
            return self.report("check", 0, e, "setup")
        self.setup = m.get("setup") or ""
        if "await" in self.code or "async" in self.code:
            self.lazy = assay_async.expected(self.code)
        first, _, rest = m["function"].partition(".")
        first = first.partition("(")[0]
        self.asked_class, self.asked_method = m.get("class", False), bool(rest)
        if self.asked_class:
            self.codec = self.calls_made.codec = self.of_a_class
        names["candidate"] = (Class if self.asked_class else Candidate)(self, 0, m["function"])
        names[first] = Class(self, 1, first) if rest else names["candidate"]
        self.functions = m.get("functions") or []
        for i, name in enumerate(self.functions):
            names[name] = Candidate(self, -1 - i, name)
        code = self.code
        if assay_apart.HINTS.search(code):
            why = assay_apart.needs_one_process(code, ["candidate", first, *self.functions])
            if why:
                return self.report("check", 0, NeedsOneProcess(why))
        if "seed(" in code or "environ" in code or "putenv" in code:
            self.share = assay_apart.Shared(code)
        self.run_tests(names)

    def run_tests(self, names):
        """Run the check code in names, and then the tests that it has defined."""
        before = dict(names)
        if not self.attempt("check", lambda: exec(compile_code(self.code, CHECK), names), quiet=True):
            return
        own = {k: v for k, v in names.items() if before.get(k) is not v}
        functions = list(assay_suite.functions(own, names.get("candidate")))
        tests = assay_suite.suite(own)
        self.left = len(functions) + (tests.countTestCases() if tests else 0)
        if not self.left:
            self.report("check", 0, None)
        self.asked_by_module = self.asked
        self.clear()
        for name, test in functions:
            self.begin()
            self.attempt(name, test)
        if tests:
            assay_suite.run_suite(tests, self)

    def begin(self):
        """Start the clock of the next test. A hanging test leaves time for later ones."""
        self.left = rest = max(self.left - 1, 0)
        self.channel.send({"op": "begin", "code": rest})
        if self.link:
            self.link.until = self.end - (self.end - _now()) / 2 if rest else self.end

    def attempt(self, name, f, quiet=False):
        """Run a test and report its verdict. If a quiet test passes, return True instead of a report."""
        began = _now()
        failed, skip = None, ""
        try:
            f()
        except Gone:
            raise
        except BaseException as e:
            if type(e) is SystemExit and e.code in (None, 0, False):
                quiet = False  # such as unittest.main
            elif assay_suite.skipped(e):
                failed, skip = self.skip(str(e))
                quiet = False
            else:
                failed = e
        failed = self.fault or failed
        if failed is None and quiet:
            return True
        self.conclude(name, _now() - began, failed, skip)
        return False

    def conclude(self, name, seconds, e, skip):
        """Report a test that ended with exception e, or that was skipped for a reason."""
        self.report(name, seconds, self.fault or e, skip="" if self.fault else skip)
        self.clear()

    def clear(self):
        """Clear the state of the last test."""
        self.last = self.fault = None
        self.self_reported = self.asked_by_test = False
        self.calls_made.table.reset()

    def skip(self, reason):
        """Return the exception and the reason of a skipped test.

        A solution must not be able to cause a skip: after the test has used it, a skip is a failure.
        """
        if self.asked_by_test or self.asked_by_module:
            return AssertionError("the test was skipped after it had called the solution: " + cut(str(reason), 200)), ""
        return None, cut(str(reason), 200) or "skipped"

    def report(self, name, seconds, e, stage="check", skip=""):
        if _getpid() != self.process:  # a process that the check forked
            os._exit(0)
        out = {"op": "verdict", "name": cut(name, 200), "passed": e is None, "calls": self.calls, "wall_ms": seconds * 1000}
        out["self_reported"] = self.self_reported
        if skip and e is None:
            out.update(passed=False, skipped=skip)
        if e is not None:
            try:
                out.update(self.describe(e, stage))
            except Gone:
                raise
            except BaseException as x:
                out["message"] = "the check failed: %s" % type_name(type(x))
        self.channel.send(out)

    def describe(self, e, stage):
        filename = CHECK if stage == "check" else "<setup>"
        line = line_in(e, filename)
        text = ""
        if line and stage == "check":
            text = cut(self.code.splitlines()[line - 1].strip(), 200)
        last = self.last
        out = {"type": type_name(type(e)), "text": text, "line": line, "stage": stage, "own": self.own(e)}
        out["by_solution"] = last is not None and last[4] is e
        out["message"] = cut(e.msg if isinstance(e, SyntaxError) and e.msg else str(e) if not isinstance(e, Gone) else "", 500)
        if isinstance(e, NotData) and e is self.fault:
            out["refused"] = cut(str(e), 500)
        if out["by_solution"]:
            out["exception"] = _sanitized(last[5])
        if last is not None:
            out["call"] = cut("(%s)" % ", ".join(last[1]), 300)
            if last[0] < 0:
                out["function"] = self.functions[-1 - last[0]]
            if last[3] is not None:
                out["got"] = cut(last[3], 500)
        if isinstance(e, AssertionError) and line:
            out["expected"] = self.expected(line)
        return out

    def own(self, e):
        """Report whether a test has failed by itself, for any solution."""
        if not self.asked or isinstance(e, CannotPass):
            return assay_fault.untouched(e)
        return self.fault is None and assay_fault.unavoidable(e, {CHECK: self.code, "<setup>": self.setup})

    def expected(self, line):
        """Return the value in an assert on this line, if it is a literal."""
        import ast

        for node in ast.walk(ast.parse(self.code)):
            if isinstance(node, ast.Assert) and node.lineno <= line <= (node.end_lineno or 0):
                test = node.test
                if isinstance(test, ast.Compare) and len(test.ops) == 1 and isinstance(test.ops[0], (ast.Eq, ast.Is)):
                    try:
                        return cut(repr(ast.literal_eval(test.comparators[0])), 500)
                    except ValueError:
                        return ""
        return ""


def _sanitized(said):
    """Return the solution's report of an exception, cut to the forwarded length."""
    said = said or {}
    line = said.get("line")
    out = {"type": cut(said.get("type"), 200), "message": cut(said.get("message")), "traceback": cut(said.get("traceback"), MAX_TRACE)}
    out["line"] = line if type(line) is int and 0 < line < 1 << 31 else 0
    return out


def check(fd):
    """Run one check, report its verdicts, and end."""
    global _ready
    side, _ready = _ready or Check(), None
    side.begin_at(fd)
    serve(side)


def serve(side):
    m = side.channel.receive()
    if m is None:
        return
    try:
        side.run(m)
        side.channel.send({"op": "done", "calls": side.calls, "asked": side.asked})
        side.channel.receive()
    except (Gone, OSError):
        pass


SAMPLE_CHECK = """
METADATA = {"author": "assay"}

def check(candidate):
    assert candidate([1, 2], 1) == [2, 3]
    assert candidate("ab", more=(1.5, True)) == ("a", {"b": None}), "text"
"""


_ready = None


def make_ready():
    """Create the object of the next check, for forked processes to inherit."""
    global _ready
    _ready = Check()


def warm_up():
    """Check a dummy solution to warm up, without other side effects."""
    main = sys.modules["__main__"]
    worker, ours = _socket.socketpair()
    solution, link = _socket.socketpair()
    Channel(worker.fileno()).send({"op": "check", "check": SAMPLE_CHECK, "setup": SAMPLE, "function": "f", "wall": 60, "link": link.fileno()})
    for value in [2, 3], {"$tuple": ["a", {"b": None}]}:
        Channel(solution.fileno()).send({"op": "return", "value": value})
    worker.shutdown(_socket.SHUT_WR)
    check(ours.fileno())
    for end in worker, ours, solution, link:
        end.close()
    sys.modules["__main__"] = main
    forget_code(CHECK, "<setup>")
