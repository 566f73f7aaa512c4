"""Inspect values whose methods belong to the snippet, with a time limit and without side effects.

A repr can hang, end the process or exhaust its memory. So unknown reprs run in a forked copy of the process, which is
killed at its time limit. Objects of installed packages are inspected in place under an alarm, because their native
threads do not survive a fork. A part of the module harness, like assay_values: see python.go.

Standard library only, for Python 3.8 and later.
"""

import builtins
import os
import sys

from assay_values import (  # fmt: skip
    _SIMPLE, _Late, _Unknown, _cut, _dumps, _guard, _loads, _plain_leaf, _repr, _slot, _write_repr,
)

from time import monotonic as _clock  # here, because harness.py gets the text from this line on

MAX_ROWS = 100  # of a data frame, and columns
MAX_FIGURES = 20
LOOK_TIME = 1.0  # seconds for all values of an execution that need such an inspection
LOOK_MEMORY = 256 << 20  # bytes that the copy may allocate


def _of_library(kind):
    """Report whether a class belongs to an installed package."""
    name = type.__dict__["__dict__"].__get__(kind).get("__module__")
    module = sys.modules.get(name.partition(".")[0]) if type(name) is str else None
    file = module.__dict__.get("__file__") if type(module) is type(sys) else None
    return type(file) is str and ("/site-packages/" in file or "/dist-packages/" in file)


def _library_leaf(value):
    """Like _plain_leaf, but also for objects of installed packages."""
    return repr(value) if _of_library(type(value)) else _plain_leaf(value)


def _is_plain_error(e):
    """Report whether formatting an exception, its causes and its notes calls no method of the snippet."""
    seen, todo = set(), [e]
    while todo:
        x = todo.pop()
        if x is None or id(x) in seen:
            continue
        seen.add(id(x))
        kind, state = type(x), x.__dict__
        parts = [x.args, list(state.values()), getattr(x, "filename", None) if isinstance(x, (OSError, SyntaxError)) else None]
        if isinstance(x, SyntaxError):
            parts += [x.msg, x.text]
        if type(_slot(kind, "__str__")) is not type(object.__str__) or len(seen) > 100:
            return False
        if sys.version_info >= (3, 12) and isinstance(x, (AttributeError, NameError)) and type(getattr(x, "obj", None)) not in _SIMPLE:
            if _slot(type(x.obj), "__dir__") is not object.__dir__ or _slot(type(x.obj), "__getattribute__") is not object.__getattribute__:
                return False  # the traceback searches for similar names
        group = getattr(builtins, "BaseExceptionGroup", None)
        if group and isinstance(x, group):
            todo += x.exceptions
            parts[0] = x.args[:1]
        try:
            _write_repr(parts, [], 1 << 20, 0, set(), _plain_leaf)
        except BaseException:
            return False
        todo += [x.__cause__, x.__context__]
    return True


class _Looker:
    """Inspects the values of one execution. wall is the time limit of the execution in seconds, from now.

    Inspection takes at most half of the remaining time, so that no repr makes a finished program late.
    """

    def __init__(self, wall):
        self.wall, self.began = wall, _clock()
        self.left = None
        self.later = []  # (value, limit, destination of the repr) of values to inspect last

    def repr(self, value, limit, out):
        try:
            out["repr"] = _repr(value, limit, _plain_leaf)
        except _Unknown:
            self.later.append((value, limit, out))

    def time(self):
        """Return the remaining seconds for inspection."""
        now = _clock()
        if self.left is None:
            self.left = LOOK_TIME
            if self.wall:
                self.left = max(min(LOOK_TIME, (self.wall - (now - self.began)) / 2), 0.02)
            self.until = now + self.left
        return self.until - now

    def now(self, look):
        """Return the JSON value of one look, or a text that explains its absence."""
        return _look([look], self.time)[0]

    def in_place(self, look):
        """Return look() for an object of an installed package; raise _Late at the time limit."""
        return _in_place(look, self.time())

    def finish(self):
        """Inspect the remaining values."""
        apart = []
        for value, limit, out in self.later:
            try:
                out["repr"] = self.in_place(lambda: _repr(value, limit, _library_leaf))
            except _Unknown:
                apart.append((value, limit, out))
            except _Late:
                out["repr"] = "<repr timed out>"
        self.later = []
        found = _look([lambda v=value, n=limit: _repr(v, n) for value, limit, _ in apart], self.time) if apart else ()
        for (_, _, out), text in zip(apart, found):
            missing = text is _TIMED_OUT or text is _FAILED
            out["repr"] = "<repr %s>" % text if missing or type(text) is not str else text


class _Missing(str):
    """Why a look has no result."""


_TIMED_OUT, _FAILED = _Missing("timed out"), _Missing("failed")


def _in_place(look, seconds):
    """Return look(), which an alarm interrupts with _Late. It preserves the snippet's own timer."""
    import _signal

    armed = [True]

    def late(*_):
        if armed[0]:
            raise _Late

    if seconds <= 0:
        raise _Late
    before = _signal.signal(_signal.SIGALRM, late)
    timer = _signal.setitimer(_signal.ITIMER_REAL, seconds, 0.05)
    try:
        return look()
    finally:
        armed[0] = False
        _signal.setitimer(_signal.ITIMER_REAL, *timer)
        _signal.signal(_signal.SIGALRM, before if before is not None else _signal.SIG_DFL)


def _look(looks, left):
    """Return the results of looks as JSON, or _TIMED_OUT or _FAILED. left returns the remaining seconds for all."""
    found = []
    while len(found) < len(looks) and left() > 0:
        try:
            found += _look_apart(looks[len(found) :], left)
        except OSError:  # no process could be forked
            break
    for look in looks[len(found) :]:
        try:
            found.append(_in_place(look, left()))
        except _Late:
            found.append(_TIMED_OUT)
        except BaseException:
            found.append(_FAILED)
    return found


def _look_apart(looks, left):
    """Return the results of the first looks in a copy of this process, up to the first look that hangs or ends the
    copy.
    """
    import _signal
    import select

    reader, writer = os.pipe()
    handler = _signal.getsignal(_signal.SIGCHLD)
    if handler is not None:  # the snippet's handler does not see the end of our child
        _signal.signal(_signal.SIGCHLD, _signal.SIG_DFL)
    found = []
    try:
        pid = _fork()
        if pid == 0:
            _answer_looks(looks, writer)
        os.close(writer)
        writer = -1
        data = b""
        waiting = select.poll()
        waiting.register(reader, select.POLLIN)
        while len(found) < len(looks):
            part = b""
            if waiting.poll(max(left() / 2, 0.02) * 1000):
                part = os.read(reader, 1 << 16)
                if not part:
                    found.append(_FAILED)
                    break
            else:
                found.append(_TIMED_OUT)
                break
            data += part
            while len(data) >= 4 and len(data) >= 4 + int.from_bytes(data[:4], "big"):
                end = 4 + int.from_bytes(data[:4], "big")
                answer = _guard(_loads, data[4:end].decode())
                found.append(_FAILED if answer is None else answer)
                data = data[end:]
        for kill in os.killpg, os.kill:
            _guard(kill, pid, 9)
        _guard(os.waitpid, pid, 0)
    finally:
        for fd in reader, writer:
            if fd >= 0:
                os.close(fd)
        if handler is not None:
            _signal.signal(_signal.SIGCHLD, handler)
    return found[: len(looks)]


def _fork():
    if sys.version_info < (3, 12):
        return os.fork()
    import warnings

    with warnings.catch_warnings():  # it warns about threads
        warnings.simplefilter("ignore")
        return os.fork()


def _answer_looks(looks, writer):
    """Run as the copy: silent, with little memory, and exit afterwards."""
    try:
        pid = os.getpid()
        os.setpgid(0, 0)
        null = os.open(os.devnull, os.O_RDWR)
        for fd in 0, 1, 2:
            os.dup2(null, fd)
        _guard(_limit_memory)
        for look in looks:
            data = _dumps(_guard(look)).encode()
            if os.getpid() != pid:  # a look has forked
                break
            data = len(data).to_bytes(4, "big") + data
            while data:
                data = data[os.write(writer, data) :]
    finally:
        os._exit(0)


def _limit_memory():
    import resource

    with open("/proc/self/statm") as f:
        size = int(f.read().split()[0]) * resource.getpagesize() + LOOK_MEMORY
    _, most = resource.getrlimit(resource.RLIMIT_AS)
    if most == resource.RLIM_INFINITY or size < most:
        resource.setrlimit(resource.RLIMIT_AS, (size, most))


# Display


def _display(value, looker):
    """Return a data frame as a table, and the open figures.

    Figures are written to the working directory: artifacts, if the policy includes them.
    """
    out = _table(value, looker)
    figures = _figures()
    if figures:
        for i, data in enumerate(figures):
            path = os.path.abspath("figure-%d.png" % (i + 1))
            with open(path, "wb") as f:
                f.write(data)
            out.append({"media_type": "image/png", "path": path})
    return out


def _table(value, looker):
    """Return the head of a data frame, if value is one."""
    kind = type(value)
    if kind in _SIMPLE or _slot(kind, "to_records") is None:
        return []
    if not any(map(_of_library, type.__dict__["__mro__"].__get__(kind))):
        found = looker.now(lambda: _rows(value))
        return found if type(found) is list else []
    try:
        return looker.in_place(lambda: _rows(value))
    except _Late:
        return []


def _rows(value):
    if not hasattr(value, "columns"):
        return []
    columns = [_cut(str(c), 200) for c in list(value.columns)[:MAX_ROWS]]
    rows = [[_cut(str(v), 200) for v in row[:MAX_ROWS]] for row in value.head(MAX_ROWS).values.tolist()]
    return [{"media_type": "application/vnd.assay.table+json", "table": {"columns": columns, "rows": rows, "total": len(value)}}]


def _figures():
    """Return the open figures as PNG and close them."""
    pyplot = sys.modules.get("matplotlib.pyplot")
    if pyplot is None:
        return []
    import io

    out = []
    for number in pyplot.get_fignums()[:MAX_FIGURES]:
        f = io.BytesIO()
        pyplot.figure(number).savefig(f, format="png")
        out.append(f.getvalue())
    pyplot.close("all")
    return out
