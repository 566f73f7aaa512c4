"""A live interpreter: it executes snippets one after another and keeps its state.

serve(fd) reads frames (four bytes of length, most significant first, and a JSON object with the key op) and responds
to them. internal/worker/live is the other end and documents them. One thread reads; the main thread executes. So a
snippet can be interrupted like with Control-C, and host functions can be answered while it waits.

This is not a security boundary: snippets share the process, so the reader must not trust the responses.

Standard library only, for Python 3.8 and later.
"""

import _signal
import _socket
import _thread
import base64
import collections
import functools
import importlib
import json
import linecache  # noqa: F401, for tracebacks
import os
import signal
import stat
import struct
import sys
import threading
import time

import assay_imports
import harness
from assay_output import Captured, prepare
from assay_shell import Shell

MAX_PICTURE = 4 << 20
MAX_FILE = 16 << 20
MAX_ARGS = 4 << 20
MAX_SOURCES = 4 << 20  # characters of snippets whose lines tracebacks can show
SIGINT = int(signal.SIGINT)
encode = json.JSONEncoder(check_circular=False).encode  # json.dumps would create an encoder each time
MAX_DEEP = 200  # of a variable that is read, in lists and dicts


class CallError(Exception):
    """A host function failed, or may not be called."""


class Session:
    failed = ""  # the traceback of the last execution that an exception ended

    def __init__(self):
        """Create everything that may exist before the process of the session does: see make_ready."""
        self.copying, self.serving = False, False
        self.called = 0
        self.sources = Sources()
        self.functions, self.first = {}, ()  # host functions: current ones; initial ones
        self.captured = Captured()
        self.shell = Shell()
        self.fresh()
        self.forget()

    def start(self, fd):
        """Serve the stream fd in this process from now on."""
        self.fd = fd
        self.main = threading.get_ident()
        self.connect()
        self.captured.open()
        self.captured.restore(True)

    def event_loop(self):
        """Return the loop for code that awaits. Its tasks survive executions, and run while code awaits."""
        if self.loop is None or self.loop.is_closed():
            import asyncio

            self.loop = asyncio.new_event_loop()
        return self.loop

    def forget(self):
        """Forget the frames and calls of another process."""
        self.loop = None  # it would share descriptors
        self.writing = threading.Lock()
        self.todo = collections.deque()
        self.ready = threading.Semaphore(0)
        self.running = None  # id of the current execution
        self.guard = threading.Lock()  # of running, and of interrupts
        self.calls = {}  # open host calls: number → [lock, answer]

    def connect(self):
        """Open this process's stream. forget has run before."""
        self.pid = os.getpid()
        self.stream = _socket.socket(fileno=os.dup(self.fd))
        self.stream.setblocking(True)

    def fresh(self):
        self.module = harness._new_main()
        self.module.__file__ = self.sources.name
        self.names = self.module.__dict__
        self.names.update(HELPERS)
        self.names.update(self.functions)

    def serve(self):
        _signal.signal(SIGINT, self.on_interrupt)
        os.register_at_fork(after_in_child=self.disconnect)
        threading.excepthook = print_thread_error
        self.serving = True
        self.start_reader()
        self.send({"op": "ready"})
        while True:
            try:
                self.ready.acquire()
                m = self.todo.popleft()
                if m is None:
                    return
                self.handle(m)
                m = None  # frees large objects now, not during the next request
            except KeyboardInterrupt:
                pass  # too late: its execution has ended

    def disconnect(self):
        """Close the stream in a process that a snippet forked. The worker detects the end of the session by its end."""
        if not self.copying:
            self.stream.close()
            harness._guard(os.close, self.fd)

    def start_reader(self):
        _thread.start_new_thread(self.read, ())

    def on_interrupt(self, *_):
        if self.running is not None:
            raise KeyboardInterrupt

    # Frames

    def read(self):
        while True:
            files = []
            head = self.exactly(4, files)
            body = head and self.exactly(int.from_bytes(head, "big"), files)
            if not body:
                os._exit(0)  # the worker has closed the stream
            m = json.loads(body)
            op = m["op"]
            if op == "fork":
                m["files"] = files
            if "load" in m:
                m["load"] = self.exactly(m["load"], files)
            if op == "interrupt":
                with self.guard:
                    if self.running == m["id"]:
                        signal.pthread_kill(self.main, signal.SIGINT)
            elif op == "look":
                self.captured.look()
            elif op == "answer":
                call = self.calls.get(m["call"])
                if call is not None:
                    call[1] = m
                    call[0].release()
            else:
                self.todo.append(m)
                self.ready.release()
            body = m = call = None  # as above

    def exactly(self, n, files):
        """Return the next n bytes, and add descriptors that come with them to files."""
        data = bytearray(n)
        room = memoryview(data)
        while room:
            try:
                got, control, _, _ = self.stream.recvmsg_into([room], 128)
            except OSError:
                return None
            if not got:
                return None
            for level, kind, fds in control:
                if level == _socket.SOL_SOCKET and kind == _socket.SCM_RIGHTS:
                    files.extend(struct.unpack("%di" % (len(fds) // 4), fds))
            room = room[got:]
        return data

    def send(self, m):
        if os.getpid() != self.pid:
            return
        data = encode(m).encode("ascii", "replace")
        data = len(data).to_bytes(4, "big") + data
        with self.writing:
            while data:
                data = data[os.write(self.fd, data) :]

    # Requests

    def handle(self, m):
        answer = {"op": "done", "id": m["id"]}
        try:
            act = getattr(self, "do_" + m["op"])
            act(m, answer)
        except KeyboardInterrupt:
            answer["error"] = "interrupted"
        except BaseException as e:
            answer["error"] = harness._cut("%s: %s" % (type(e).__name__, harness._guard(str, e)), 2000)
        finally:
            if os.getpid() != self.pid:
                os._exit(1)
            with self.guard:
                self.running = None
        if answer:
            self.send(answer)

    def begin(self, m):
        """Collect output from now on, and report streams that pass their limits."""

        def exceed(name):
            self.send({"op": "exceeded", "id": m["id"], "stream": name})

        self.captured.begin(m["stdout"], m["stderr"], m.get("kill") or (), exceed)

    def do_execute(self, m, answer):
        given = m.get("variables") or {}
        if m.get("tagged"):
            given = {k: untagged(v) for k, v in given.items()}
        for name, value in given.items():
            self.names[harness._name(name)] = value
        before = {k: harness._fingerprint(v) for k, v in list(self.names.items())}
        sys.modules["__main__"] = self.module
        value, failed, code = None, None, 0
        self.captured.restore()
        self.begin(m)
        lines = self.sources.begin(m["code"])
        answer["source"] = self.module.__file__ = self.sources.name
        if self.serving:
            find_classes(self.sources)
        self.names.pop("__warningregistry__", None)  # warnings of different snippets are independent
        looker = harness._Looker(m.get("wall"))
        _signal.signal(SIGINT, self.on_interrupt)  # a snippet may have changed it
        began = time.perf_counter()
        try:
            with self.guard:
                self.running = m["id"]
            rules = m.get("imports")
            value = harness._execute(
                m["code"], self.names, lines, rules and harness._rules(rules), self.sources.name, self.event_loop
            )
            harness._flush()
            self.settle()
        except harness._Violation as e:
            answer["violation"] = str(e)
        except SystemExit as e:
            code = harness._exit_code(e)
        except BaseException as e:
            failed = e
        if os.getpid() != self.pid:
            harness._end_child(failed, code)
        self.settle()
        answer["wall_ms"] = (time.perf_counter() - began) * 1000
        if failed is not None:
            answer["exception"] = harness._exception(failed, looker)
            Session.failed = answer["exception"]["traceback"]
            answer["interrupted"] = isinstance(failed, KeyboardInterrupt)
            harness._print_error(answer["exception"]["traceback"])
            failed = None
        elif value is not None:
            answer["value"] = plain(harness._guard(harness._value, value, looker))
            self.names["_"] = value
        answer["code"] = code
        answer["display"] = harness._guard(display, value, looker) or []
        answer["variables"] = harness._guard(harness._variables, self.names, before, looker) or {}
        value = None
        looker.finish()
        harness._flush_c()
        self.captured.end(answer)

    def settle(self):
        """Record that interrupts are not possible any more."""
        if os.getpid() == self.pid:  # a forked process may have copied the lock while it was held
            with self.guard:
                self.running = None

    def do_shell(self, m, answer):
        self.begin(m)
        began = time.perf_counter()
        p, files = None, ()
        try:
            with self.guard:
                self.running = m["id"]
            p, files = self.shell.start(m["command"])
            answer["code"] = p.wait()
        except KeyboardInterrupt:
            answer["interrupted"] = True
        finally:
            with self.guard:
                self.running = None
            if "interrupted" in answer and p is not None:
                harness._guard(self.shell.kill, p)
                harness._guard(p.wait)
            self.shell.end(files, "code" in answer)
        answer["wall_ms"] = (time.perf_counter() - began) * 1000
        self.captured.end(answer)

    def do_set(self, m, answer):
        name = harness._name(m["name"])
        if not name.isidentifier():
            answer["error"] = "it is not the name of a variable"
            return
        if name == "__builtins__":
            answer["error"] = "no code runs without __builtins__; set another name"
            return
        try:
            value = json.loads((m["load"] or b"").decode(), parse_constant=no_constant)
        except ValueError as e:
            answer["error"] = "the value is not JSON: %s" % e
            return
        self.names[name] = untagged(value) if m.get("tagged") else value

    def do_get(self, m, answer):
        name = harness._name(m["name"])
        if name not in self.names:
            answer["error"] = "not found"
            return
        value = self.names[name]
        looker = harness._Looker(None)
        answer["value"] = plain(harness._value(value, looker))
        looker.finish()
        if "json" in answer["value"] or "tagged" in answer["value"]:
            return
        # Larger values follow the frame, because a frame has a limit of values.
        budget = [MAX_FILE]
        text = b""
        if harness._faithful(value, 0, budget, MAX_DEEP, True):
            text = harness._dumps(value).encode("ascii")
        elif budget[0] >= 0:
            tagged = harness._guard(harness._tagged, value, 1 << 20, 200)
            if tagged is not None:
                text = harness._dumps(tagged).encode("ascii")
                answer["tagged"] = True
        if budget[0] < 0 or len(text) > MAX_FILE:
            answer["size"] = MAX_FILE + 1
        else:
            answer["data"] = base64.b64encode(text).decode()

    def do_list(self, m, answer):
        looker = harness._Looker(None)
        answer["variables"] = harness._variables(self.visible(), {}, looker)
        looker.finish()

    def visible(self):
        """Return the names other than host functions and helpers."""
        given = {**HELPERS, **self.functions}
        return {k: v for k, v in list(self.names.items()) if k not in given or given[k] is not v}

    def do_reset(self, m, answer):
        """Reset the namespace and the shell to their initial state. Files stay, and so do running threads and
        processes.
        """
        dropped = [k for k in self.visible() if k[:1] != "_"]
        self.functions = {k: v for k, v in self.functions.items() if k in self.first}
        self.shell = Shell()
        self.fresh()
        answer["reset"] = {
            "dropped": sorted(harness._cut(k, 200) for k in dropped)[: harness.MAX_VARIABLES], "modules": drop_modules(),
            "functions": sorted(self.functions),
        }  # fmt: skip

    def do_inject(self, m, answer):
        names = m["names"] or ()  # null means no names
        if m.get("first"):
            self.first = names
        for name in names:
            self.functions[name] = self.names[name] = self.host_function(name)

    def do_fork(self, m, answer):
        """Fork. The copy does not respond here: it has its own stream."""
        fork = sys.modules.get("_assay_fork")
        files = m["files"]
        try:
            if fork is None or len(files) != 1:
                raise RuntimeError("this interpreter cannot be copied")
            self.copying = True
            between = fork.copy(files[0], self.captured.open)
        finally:
            self.copying = False
            for fd in files:
                harness._guard(os.close, fd)
        if between:
            self.send(answer)
            harness._guard(os.waitpid, between, 0)
        else:
            self.forget()
            self.connect()
            self.start_reader()
            self.send({"op": "ready"})
        answer.clear()

    def do_put(self, m, answer):
        """Write a file. Pipes, sockets, devices and directories are errors, because opening or writing them may
        block.
        """
        path = m["path"]
        directory = os.path.dirname(path)
        if directory:
            os.makedirs(directory, exist_ok=True)
        if os.path.exists(path):
            regular(os.stat(path))
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_NONBLOCK | os.O_CLOEXEC, 0o666)
        with open(fd, "wb") as f:
            regular(os.fstat(fd))
            f.truncate()
            f.write(m["load"] or b"")

    def do_file(self, m, answer):
        """Return a range of a file, and its whole length. A file without a known length is read to its end."""
        offset, length = m.get("offset", 0), m.get("length", MAX_FILE)
        fd = os.open(m["path"], os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        info = os.fstat(fd)
        if stat.S_ISDIR(info.st_mode):
            os.close(fd)
            raise IsADirectoryError("it is a directory")
        with open(fd, "rb") as f:
            f.seek(offset if stat.S_ISREG(info.st_mode) else 0)
            data = f.read(length + 1 if not info.st_size else length) or b""
            if not info.st_size and len(data) > length:
                raise ValueError("the file does not tell its length, and has more than %d MiB" % (MAX_FILE >> 20))
        answer["data"] = base64.b64encode(data).decode()
        answer["size"] = info.st_size or len(data)

    # Host functions

    def host_function(self, name):
        def call(*args, **kwargs):
            return self.call(name, args, kwargs)

        call.__name__ = call.__qualname__ = name
        return call

    def call(self, name, args, kwargs):
        """Return the client's answer to a call. Several threads may call at once."""
        if os.getpid() != self.pid:
            raise CallError("%s: a forked process cannot call host functions" % name)
        try:
            size = len(json.dumps([args, kwargs], allow_nan=False))
        except (TypeError, ValueError, RecursionError) as e:
            raise TypeError("%s: the arguments cannot be sent: %s" % (name, e)) from None
        if size > MAX_ARGS:  # a frame of this size is rejected
            raise CallError("%s: the arguments are %d bytes of JSON; a call may have %d" % (name, size, MAX_ARGS))
        lock = _thread.allocate_lock()
        lock.acquire()
        with self.guard:
            self.called += 1
            number = self.called
        waiting = self.calls[number] = [lock, None]
        try:
            self.send({"op": "call", "call": number, "name": name, "args": list(args), "kwargs": kwargs})
            lock.acquire()
        finally:
            del self.calls[number]
        answer = waiting[1]
        if answer.get("error"):
            raise CallError("%s: %s" % (name, answer["error"]))
        return answer.get("value")


def print_thread_error(failed):
    """Print a thread's uncaught exception, with the lines of its snippet. The interpreter's own hook reads lines from
    files only.
    """
    if failed.exc_type is SystemExit:
        return
    import traceback

    name = failed.thread.name if failed.thread is not None else threading.get_ident()
    lines = traceback.format_exception(failed.exc_type, failed.exc_value, failed.exc_traceback)
    if sys.stderr is not None:
        sys.stderr.write("Exception in thread %s:\n%s" % (name, "".join(lines)))


def drop_modules():
    """Unload the modules from files that the session can write. Return their names."""
    found = []
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        places = [os.path.dirname(file)] if isinstance(file, str) else getattr(module, "__path__", None)
        if name == "__main__" or not isinstance(places, (list, tuple)) and type(places).__name__ != "_NamespacePath":
            continue
        if isinstance(file, str) and file[:1] == "<":
            continue  # our own
        if any(isinstance(p, str) and os.access(p or ".", os.W_OK) for p in places):
            found.append(name)
    for name in found:  # now: a package without a file gets its location from its parent
        del sys.modules[name]
    importlib.invalidate_caches()
    return sorted(harness._cut(name, 200) for name in found)[: harness.MAX_VARIABLES]


# Names that a snippet finds besides its own.


def format_exc(limit=None, chain=True):
    """Return the traceback of the exception being handled or, by default, of the last one that ended an execution."""
    import traceback

    if sys.exc_info()[0] is None:
        return Session.failed
    return traceback.format_exc(limit=limit, chain=chain)


def safe_json_dumps(value, **kwargs):
    """Return value as JSON. Parts without a JSON form become strings; it never raises."""
    kwargs.setdefault("default", str)
    try:
        return json.dumps(value, **kwargs)
    except Exception:
        return json.dumps(harness._repr(value, 1 << 20))


HELPERS = {"CallError": CallError, "format_exc": format_exc, "safe_json_dumps": safe_json_dumps}
for helper in HELPERS.values():
    helper.__module__ = "__main__"


def regular(info):
    """Raise OSError for the status of anything but a regular file."""
    if stat.S_ISDIR(info.st_mode):
        raise IsADirectoryError("it is a directory")
    if not stat.S_ISREG(info.st_mode):
        raise OSError("it is not a regular file")


def untagged(value):
    """Decode a JSON value with tags."""
    import assay_wire

    return assay_wire.Codec(None, harness._unknown_tag).decode(value)


def no_constant(name):
    raise ValueError("it has no %s" % name)


harness._ours.update((__file__, harness.__file__, assay_imports.__file__, Captured.begin.__code__.co_filename))


class Sources:
    """The texts of recent snippets under unique names, for tracebacks and inspect. Older texts are dropped."""

    def __init__(self):
        self.number, self.name, self.size = 0, harness.FILENAME, 0
        self.entries = collections.OrderedDict()  # the lines and the size of each, by name
        self.getfile = None  # from finding, if created

    def begin(self, code):
        """Register the next snippet. Return the list for its lines."""
        linecache = sys.modules["linecache"]
        if self.entries and self.name not in linecache.cache:  # a snippet emptied it
            for name, (lines, _) in self.entries.items():
                linecache.cache[name] = 0, None, lines, name
        self.number += 1
        self.name = "<snippet %d>" % self.number
        lines = harness._remember_lines(self.name)
        self.entries[self.name] = lines, len(code)
        self.size += len(code)
        while self.size > MAX_SOURCES and len(self.entries) > 1:
            name, (_, size) = self.entries.popitem(last=False)
            self.size -= size
            linecache.cache.pop(name, None)
        return lines

    def find(self, kind):
        """Return the name of the last snippet that defines a class, or None."""
        import re

        defines = re.compile(r"\s*class\s+%s\b" % re.escape(kind.__name__)).match
        return next((name for name in reversed(self.entries) if any(map(defines, self.entries[name][0]))), None)


def find_classes(sources):
    """Make inspect, once imported, find the source of classes in snippets. Python only searches the last snippet."""
    inspect = sys.modules.get("inspect")
    if inspect is None or hasattr(inspect.getfile, "__wrapped__"):
        return
    if sources.getfile is None or sources.getfile.__wrapped__ is not inspect.getfile:
        sources.getfile = finding(sources, inspect.getfile)
    inspect.getfile = sources.getfile


def finding(sources, getfile):
    """Return inspect.getfile, extended by the classes in snippets."""

    def find(object):
        if isinstance(object, type) and object.__module__ == "__main__":
            found = sources.find(object)
            if found:
                return found
        return getfile(object)

    return functools.update_wrapper(find, getfile)


def plain(value):
    """Return a value of the harness as JSON."""
    if value is not None and "json" in value:
        value["json"] = value["json"].value
    return value


def display(value, looker):
    """Return the open figures, and the value if it is a data frame."""
    out = harness._table(value, looker)
    for data in harness._figures():
        if len(data) <= MAX_PICTURE:
            out.append({"media_type": "image/png", "base64": base64.b64encode(data).decode()})
    return out


def warm_up():
    """Run typical operations of a session to warm up, without other side effects."""
    handler = signal.getsignal(signal.SIGINT)
    streams = sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__
    main = sys.modules["__main__"]
    out, err = os.dup(1), os.dup(2)
    worker, ours = _socket.socketpair()
    session = Session()
    try:
        session.start(ours.fileno())
        session.handle(json.loads(b'{"op": "inject", "id": 0, "names": ["f"]}'))
        session.handle({"op": "execute", "id": 0, "code": "x = [1]\nprint(x)", "stdout": 1024, "stderr": 1024})
    finally:
        for fd, kept in ((1, out), (2, err)):
            os.dup2(kept, fd)
            os.close(kept)
        for stream in worker, ours, session.stream, session.captured:
            stream.close()
        linecache.cache.pop("<snippet 1>", None)
        sys.modules["__main__"] = main
        sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__ = streams
        signal.signal(signal.SIGINT, handler)
    prepare()


ready = []  # the session from make_ready


def make_ready():
    """Create the next session without its streams. A forked process inherits it at no cost; its creation touches 80
    pages.
    """
    main = sys.modules["__main__"]
    session = Session()
    sys.modules["__main__"] = main
    inspect = sys.modules.get("inspect")
    if inspect is not None:
        session.sources.getfile = finding(session.sources, inspect.getfile)
    ready[:] = [session]


def serve(fd):
    os.set_inheritable(fd, False)
    os.environ.setdefault("MPLBACKEND", "Agg")
    session = ready.pop() if ready else Session()
    session.start(fd)
    session.serve()
