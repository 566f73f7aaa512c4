"""What a session writes: python's own words, and what others write to the descriptors.

Standard library only, for Python 3.8 and later.
"""

import collections
import json
import os
import sys
import threading

MOST = 22 << 20  # bytes of JSON of both streams in an answer: what says it takes 24 MiB


class Stream:
    """One standard stream: what python writes, in order with the other's."""

    encoding, errors, closed = "utf-8", "backslashreplace", False

    def __init__(self, captured, name, fd):
        self.captured, self.name, self.fd = captured, name, fd
        self.buffer = Raw(self)

    def write(self, text):
        if not isinstance(text, str):
            raise TypeError("write() argument must be str, not %s" % type(text).__name__)
        self.captured.add(self.name, text.encode("utf-8", "backslashreplace"))
        return len(text)

    def writelines(self, lines):
        for line in lines:
            self.write(line)

    def flush(self):
        pass

    def isatty(self):
        return False

    def writable(self):
        return True

    def readable(self):
        return False

    seekable = readable

    def fileno(self):
        return self.fd


class Raw:
    def __init__(self, stream):
        self.stream = stream

    def write(self, data):
        self.stream.captured.add(self.stream.name, bytes(data))
        return len(data)

    def flush(self):
        pass


class Captured:
    """What one execute writes: python's own words, and what others write to the descriptors.

    The latter go to files in memory, which are looked at whenever python writes,
    so that the order of both is kept as well as it can be. Head and tail are kept.
    """

    def __init__(self):
        self.files = {}
        for fd, name in ((1, "stdout"), (2, "stderr")):
            f = os.memfd_create(name)
            os.dup2(f, fd, True)
            os.close(f)
            self.files[name] = fd
        # Opened once more to append: a truncated file begins at its beginning.
        for name, fd in self.files.items():
            f = os.open("/proc/self/fd/%d" % fd, os.O_RDWR | os.O_APPEND)
            os.dup2(f, fd, True)
            os.close(f)
        self.lock = threading.RLock()
        self.begin(0, 0)
        sys.stdout, sys.stderr = Stream(self, "stdout", 1), Stream(self, "stderr", 2)
        sys.__stdout__, sys.__stderr__ = sys.stdout, sys.stderr

    def begin(self, stdout, stderr, kill=(), exceed=None):
        self.limits = {"stdout": stdout, "stderr": stderr}
        self.kill, self.exceed = set(kill), exceed  # streams to be told of, and how
        self.total = {"stdout": 0, "stderr": 0}
        self.head, self.held = [], {"stdout": 0, "stderr": 0}
        self.tail, self.waiting = collections.deque(), {"stdout": 0, "stderr": 0}
        for fd in self.files.values():
            try:
                os.ftruncate(fd, 0)
            except OSError:
                pass
        self.seen = {"stdout": 0, "stderr": 0}

    def collect(self):
        """Take what was written to the descriptors since."""
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
            self.begin(0, 0)


def fit(head, tail):
    """head and tail, shortened where they meet if both streams would take more than MOST bytes of JSON."""
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
    """The first chunks of a stream in so many bytes of JSON, with those of the other one; of a text its end or its beginning."""
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
