"""The standard streams of a session, and the capture of their output.

Standard library only, for Python 3.8 and later.
"""

import collections
import io
import json
import os
import sys
import threading

MOST = 22 << 20  # bytes of JSON of both streams in a response, whose frame is at most 24 MiB
STREAMS = (1, "stdout"), (2, "stderr")
_getpid = os.getpid
_environment = os.environ._data
_IOBase = io.IOBase.__base__  # not an abstract class, so that checks are fast


class Raw(io.FileIO):
    """A standard stream of a session, unbuffered.

    In the session's own process, Captured collects each write, in order with the other stream. A forked process
    writes to the descriptor. Nothing closes the stream: a wrapper that a snippet drops would close it for all later
    snippets.
    """

    def __init__(self, captured, fd, name):
        super().__init__(fd, "wb", closefd=False)
        self.captured, self.stream, self.name = captured, name, "<%s>" % name

    def write(self, data):
        if _getpid() != self.captured.pid:
            return super().write(data)
        data = bytes(data)
        self.captured.add(self.stream, data)
        return len(data)

    def close(self):
        pass


class Buffer(io.BufferedWriter):
    """sys.stdout.buffer. It does not buffer, so that the order of the streams is known."""

    def write(self, data):
        n = super().write(data)
        self.flush()
        return n

    def close(self):
        self.flush()


def encoding():
    """Return the encoding and error handler in PYTHONIOENCODING, or a session's defaults."""
    given = _environment.get(b"PYTHONIOENCODING")  # os.environ would raise and catch an exception first
    if not given:
        return "utf-8", ""
    asked, _, errors = os.fsdecode(given).partition(":")
    return asked or "utf-8", errors


def text(buffer, name):
    """Return a text stream that passes every write to buffer at once."""
    codec, errors = encoding()
    if name == "stderr" or not errors:
        errors = "backslashreplace"
    try:
        stream = io.TextIOWrapper(buffer, codec, errors, line_buffering=True, write_through=True)
    except LookupError:  # unknown name
        stream = io.TextIOWrapper(buffer, "utf-8", "backslashreplace", line_buffering=True, write_through=True)
    stream.mode = "w"
    return stream


def usable(stream):
    """Report whether later snippets can use a stream that a snippet left in sys."""
    if stream is None:
        return False
    try:
        return not (isinstance(stream, _IOBase) and stream.closed)
    except ValueError:  # it is detached
        return False


ready = {}  # streams from prepare, by name


def prepare():
    """Create the streams of the next Captured. A forked process inherits them at no cost; their creation touches 60
    pages.
    """
    if encoding() == ("utf-8", ""):
        for fd, name in STREAMS:
            ready[name] = text(Buffer(Raw(None, fd, name)), name)


class Captured:
    """The output of one execution: Python's streams, and the descriptors 1 and 2.

    The descriptors are files in memory. Captured reads them at each write of Python, to approximate the order of
    both. It keeps head and tail. open begins the capture, and restore(True) replaces Python's streams.
    """

    def __init__(self):
        self.lock = threading.RLock()
        self.files = {}  # by stream: a descriptor of its file that snippets do not use
        self.buffers = {}
        self.replaced = []  # the interpreter's own streams; their end would touch 30 pages

    def open(self):
        """Redirect the descriptors 1 and 2 to new files for this process. Streams that a snippet holds stay usable."""
        self.close()
        for fd, name in STREAMS:
            f = os.memfd_create(name)
            # Opened again in append mode, so that writes after a truncation start at the beginning.
            self.files[name] = os.open("/proc/self/fd/%d" % f, os.O_RDWR | os.O_APPEND | os.O_CLOEXEC)
            os.close(f)
            os.dup2(self.files[name], fd, True)
        self.pid = _getpid()
        self.begin(0, 0)

    def close(self):
        for fd in self.files.values():
            try:
                os.close(fd)
            except OSError:
                pass
        self.files = {}

    def restore(self, always=False):
        """Replace streams in sys that are closed, detached or None. Other redirections in Python stay."""
        if always:
            self.replaced += [sys.stdout, sys.stderr]
        for fd, name in STREAMS:
            for attribute in name, "__%s__" % name:
                if always or not usable(getattr(sys, attribute, None)):
                    setattr(sys, attribute, self.stream(fd, name) if attribute == name else getattr(sys, name))
            try:
                os.fstat(fd)
            except OSError:  # a snippet closed it
                os.dup2(self.files[name], fd, True)
        try:
            os.fstat(0)
        except OSError:
            null = os.open(os.devnull, os.O_RDONLY)
            if null:
                os.dup2(null, 0)
                os.close(null)
        if not usable(getattr(sys, "stdin", None)):
            sys.stdin = io.TextIOWrapper(io.BufferedReader(io.FileIO(0, "rb", closefd=False)), "utf-8", "surrogateescape")
            sys.stdin.mode = "r"

    def stream(self, fd, name):
        made = ready.pop(name, None)
        if made and encoding() == ("utf-8", ""):
            buffer = self.buffers[name] = made.buffer
            buffer.raw.captured = self
            return made
        buffer = self.buffers.get(name)
        try:
            buffer.raw.fileno()
        except (AttributeError, ValueError):  # there is none yet, or its raw stream is detached
            buffer = self.buffers[name] = Buffer(Raw(self, fd, name))
        return text(buffer, name)

    def begin(self, stdout, stderr, kill=(), exceed=None):
        """Drop collected output and the files' content, and collect with these limits from now on."""
        for fd in self.files.values():
            try:
                os.ftruncate(fd, 0)
            except OSError:
                pass
        self.seen = {"stdout": 0, "stderr": 0}
        self.clear(stdout, stderr, kill, exceed)

    def clear(self, stdout=0, stderr=0, kill=(), exceed=None):
        self.limits = {"stdout": stdout, "stderr": stderr}
        self.kill, self.exceed = set(kill), exceed  # exceed is called for each stream in kill that passes its limit
        self.total = {"stdout": 0, "stderr": 0}
        self.head, self.held = [], {"stdout": 0, "stderr": 0}
        self.tail, self.waiting = collections.deque(), {"stdout": 0, "stderr": 0}

    def collect(self):
        """Collect new output from the descriptors' files."""
        for name, fd in self.files.items():
            try:
                size = os.fstat(fd).st_size
            except OSError:
                continue
            at = self.seen[name]
            if size <= at:
                continue
            self.seen[name] = size
            limit = max(self.limits[name], 1)
            if size - at <= 2 * limit:
                self.put(name, os.pread(fd, size - at, at))
            else:
                self.put(name, os.pread(fd, limit, at))
                self.total[name] += size - at - 2 * limit
                self.put(name, os.pread(fd, limit, size - limit))

    def look(self):
        with self.lock:
            self.collect()

    def add(self, name, data):
        with self.lock:
            self.collect()
            self.put(name, data)

    def put(self, name, data):
        self.total[name] += len(data)
        if name in self.kill and self.total[name] > self.limits[name]:
            self.kill.discard(name)
            self.exceed(name)
        half = self.limits[name] // 2
        room = half - self.held[name]
        if room > 0:
            part, data = data[:room], data[room:]
            self.held[name] += len(part)
            self.append(self.head, name, part)
        if not data:
            return
        self.append(self.tail, name, data[-half:] if half else b"")
        self.waiting[name] += len(data[-half:]) if half else 0
        while self.waiting[name] > 2 * half + 65536:
            for i, (other, old) in enumerate(self.tail):
                if other == name:
                    self.waiting[name] -= len(old)
                    del self.tail[i]
                    break

    @staticmethod
    def append(to, name, data):
        if to and to[-1][0] == name and len(to[-1][1]) < 4096:
            to[-1] = (name, to[-1][1] + data)
        elif data:
            to.append((name, data))

    def end(self, answer):
        with self.lock:
            self.collect()
            room = {n: self.limits[n] // 2 for n in self.limits}
            tail = []
            for name, data in reversed(self.tail):
                data = data[-room[name] :] if room[name] else b""
                room[name] -= len(data)
                if data:
                    tail.append((name, data))
            head = [[n, d.decode("utf-8", "replace")] for n, d in self.head]
            tail = [[n, d.decode("utf-8", "replace")] for n, d in reversed(tail)]
            answer["output"], answer["tail"] = fit(head, tail)
            answer["bytes"] = dict(self.total)
            if self.seen["stdout"] or self.seen["stderr"]:
                self.begin(0, 0)  # frees the memory of the files
            else:
                self.clear()


def fit(head, tail):
    """Return head and tail, shortened in the middle if both streams would exceed MOST bytes of JSON."""
    if 12 * sum(len(text) for _, text in head + tail) <= MOST:
        return head, tail
    sizes = {"stdout": 0, "stderr": 0}
    for name, text in head + tail:
        sizes[name] += len(json.dumps(text))
    for name, size in sizes.items():
        room = max(MOST // 2, MOST - sum(sizes.values()) + size)
        if size > room:
            sizes[name] = room
            head = shorten(head, name, room // 2, False)
            tail = shorten(tail[::-1], name, room // 2, True)[::-1]
    return head, tail


def shorten(chunks, name, room, end):
    """Return the chunks of both streams, with one stream cut to this many bytes of JSON, at the given end of its
    text.
    """
    out = []
    for chunk in chunks:
        text = chunk[1]
        if chunk[0] == name:
            size = len(json.dumps(text))
            while size > room and text:
                keep = len(text) * room // size if room > 0 else 0
                text = text[len(text) - min(keep, len(text) - 1) :] if end else text[: min(keep, len(text) - 1)]
                size = len(json.dumps(text))
            room = room - size if text == chunk[1] else 0
        if text:
            out.append([chunk[0], text])
    return out
