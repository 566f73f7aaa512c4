"""All processes of a sandbox, and the client's operations on them and on files."""

from __future__ import annotations

import base64
import collections
import errno
import os
import select
import signal
import stat
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable
from typing import Any

from .process import MARK, Process

INLINE = 16 << 10
"""Most bytes of a file or a stream within an answer: the value of an execution has 64 KiB of JSON."""

STAGED = 8 << 20
"""Most bytes that are transferred beside an answer, in an unnamed file."""

QUEUED = 16 << 20
"""Most bytes that wait until a process reads them."""

ANSWERS = 64
"""Number of stored answers."""


class Keeper:
    """All processes, and the thread that serves their pipes."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.processes: dict[str, Process] = {}
        self.forgotten: list[Process] = []  # processes that run, or whose pipes other processes still have
        self.unwanted: collections.OrderedDict[str, bool] = collections.OrderedDict()  # killed before they started
        self.inputs: dict[str, int] = {}  # files that will become the stdin of a process
        self.woken, self.wake = nonblocking_pipe()  # wake the thread
        self.told, self.tell = nonblocking_pipe()  # wake the waiting operation
        self.gives_way = False
        self.staging = anonymous()
        threading.Thread(target=self.serve, name="assay", daemon=True).start()

    # The thread

    def serve(self) -> None:
        while True:
            with self.lock:
                poller, handlers, pause = self.interests()
            events = poller.poll(None if pause is None else pause * 1000 + 1)
            with self.lock:
                drain(self.woken)
                for fd, _ in events:
                    if fd in handlers:
                        handlers[fd]()
                now = time.monotonic()
                for p in [*self.processes.values(), *self.forgotten]:
                    p.check(now)
                self.forgotten = [p for p in self.forgotten if not p.ended or p.out.open or p.err.open]
            poke(self.tell)

    def interests(self) -> tuple[select.poll, dict[int, Callable[[], Any]], float | None]:
        """A poller of the awaited descriptors, their handlers, and the longest wait."""
        poller, now = select.poll(), time.monotonic()
        handlers: dict[int, Callable[[], Any]] = {}
        poller.register(self.woken, select.POLLIN)
        pauses: list[float] = []
        for p in [*self.processes.values(), *self.forgotten]:
            for o in (p.out, p.err):
                if o.wanted:
                    poller.register(o.fd, select.POLLIN)
                    handlers[o.fd] = o.read
            if p.stdin is not None and (p.queue or p.closing):
                poller.register(p.stdin, select.POLLOUT)
                handlers[p.stdin] = p.feed
            if p.pidfd is not None:
                poller.register(p.pidfd, select.POLLIN)
            pause = p.pause(now)
            if pause is not None:
                pauses.append(pause)
        return poller, handlers, min(pauses) if pauses else None

    # Operations: do_x handles {"do": "x"}

    def process(self, id: str) -> Process:
        p = self.processes.get(id)
        if p is None:
            raise ProcessLookupError(errno.ESRCH, "no such process is known: it was forgotten, or the sandbox is new")
        return p

    def do_spawn(self, op: dict[str, Any]) -> dict[str, Any]:
        with self.lock:
            if op["id"] not in self.processes:
                self.start(op)
        poke(self.wake)
        return self.do_wait({"ids": [op["id"]], "readable": [], "seconds": op["seconds"], "inline": True})

    def start(self, op: dict[str, Any]) -> None:
        if op["id"] in self.unwanted:
            raise InterruptedError(errno.EINTR, "it was killed before it began")
        given = self.inputs.pop(op["id"], None)
        if "data" in op:
            given = anonymous()
            write_at(given, self.given(op), 0)
        stdin = subprocess.PIPE if op["stdin"] else subprocess.DEVNULL if given is None else given
        try:
            if given is not None:
                os.lseek(given, 0, os.SEEK_SET)
            popen = subprocess.Popen(
                op["argv"], stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0,
                cwd=directory(op["cwd"]), env={**os.environ, **op["env"], MARK: op["id"]}, start_new_session=True,
            )  # fmt: skip
        finally:
            if given is not None:
                os.close(given)
        self.processes[op["id"]] = Process(popen, op["most"], op["keeps"], op["timeout"], op["id"])

    def do_wait(self, op: dict[str, Any]) -> dict[str, Any]:
        """Waits until a process of ids has ended, or a process of readable has written output or has ended.

        An interrupt ends the wait, so that other operations need not wait.
        """
        until = time.monotonic() + op["seconds"]
        while True:
            drain(self.told)
            with self.lock:
                ready = [i for i in op["ids"] if self.process(i).ended]
                for i in op["readable"]:
                    p = self.process(i)
                    if p.ended or p.out.data or p.err.data:
                        ready.append(i)
                left = until - time.monotonic()
                if ready or left <= 0 or self.gives_way:
                    return {"processes": {i: self.report(i, op.get("inline", False)) for i in ready}}
            poller = select.poll()
            poller.register(self.told, select.POLLIN)
            poller.poll(left * 1000 + 1)

    def report(self, id: str, inline: bool) -> dict[str, Any]:
        """The report of a process, including its output if that is small."""
        p = self.process(id)
        out = p.status()
        if inline:
            for name, o in (("stdout", p.out), ("stderr", p.err)):
                if len(o.data) <= INLINE:
                    out[name]["data"] = text(o.data)
        return out

    def do_report(self, op: dict[str, Any]) -> dict[str, Any]:
        """The report of a process, and its output since the last read."""
        with self.lock:
            p = self.process(op["process"])
            p.check(time.monotonic())
            for o, start in zip((p.out, p.err), op["starts"]):
                o.forget(start)
                while o.wanted and o.read():
                    pass
            report = self.report(op["process"], True)
        poke(self.wake)
        return {"processes": {op["process"]: report}}

    def do_take(self, op: dict[str, Any]) -> dict[str, Any]:
        """The output of a process on a stream from start on. Output before start is dropped."""
        with self.lock:
            p = self.process(op["process"])
            o = p.out if op["stream"] == "stdout" else p.err
            o.forget(op["start"])
            while o.wanted and o.read():
                pass
            data = bytes(o.data[:STAGED])
        poke(self.wake)
        return self.passed_on(data)

    def do_write(self, op: dict[str, Any]) -> dict[str, Any]:
        """Queues bytes for a process. Full: the process has to read some first."""
        data = self.given(op)
        with self.lock:
            p = self.process(op["process"])
            if p.stdin is None or p.closing or p.code is not None:
                raise BrokenPipeError(errno.EPIPE, "the process does not read any more")
            if len(p.queue) > QUEUED:
                return {"full": True}
            p.queue += data
            p.closing = bool(op["close"])
        poke(self.wake)
        return {"full": False}

    def do_input(self, op: dict[str, Any]) -> dict[str, Any]:
        """Adds to the future stdin of a process that has not started."""
        data = self.given(op)
        with self.lock:
            if op["process"] not in self.inputs:
                self.inputs[op["process"]] = anonymous()
            write_at(self.inputs[op["process"]], data, op["start"])
        return {}

    def do_signal(self, op: dict[str, Any]) -> dict[str, Any]:
        """Sends a signal to the group of a process. Does nothing if the process has ended."""
        with self.lock:
            p = self.process(op["process"])
            if p.code is None:
                try:
                    os.killpg(p.popen.pid, op["signal"])
                except ProcessLookupError:
                    pass
        poke(self.wake)
        return {}

    def do_kill(self, op: dict[str, Any]) -> dict[str, Any]:
        """Ends a process and all of its descendants. A process that has not started will not start."""
        with self.lock:
            p = self.processes.get(op["process"])
            if p is None:
                self.unwanted[op["process"]] = True
                if len(self.unwanted) > 1000:
                    self.unwanted.popitem(last=False)
            elif p.code is None:
                p.kill()
        poke(self.wake)
        return {}

    def forget(self, ids: list[str]) -> None:
        """Drops processes that the client no longer needs. They, and other holders of their pipes, may continue to
        write."""
        with self.lock:
            for i in ids:
                given = self.inputs.pop(i, None)
                if given is not None:
                    os.close(given)
                p = self.processes.get(i)
                if p is None:
                    continue
                del self.processes[i]
                p.forgotten = True
                for o in (p.out, p.err):
                    o.keeps, o.most = False, 0
                    o.data.clear()
                p.close_stdin()
                self.forgotten.append(p)
        if ids:
            poke(self.wake)

    # Files

    def do_read(self, op: dict[str, Any]) -> dict[str, Any]:
        """A part of a file, and its reported size."""
        fd = os.open(place(op), os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            info = os.fstat(fd)
            if stat.S_ISDIR(info.st_mode):
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), place(op))
            if stat.S_ISREG(info.st_mode):
                os.lseek(fd, op["start"], os.SEEK_SET)
            data = bytearray()
            while len(data) < min(op["length"], STAGED):
                piece = os.read(fd, min(op["length"], STAGED) - len(data))
                if not piece:
                    break
                data += piece
        finally:
            os.close(fd)
        return {"size": info.st_size, **self.passed_on(bytes(data))}

    def do_store(self, op: dict[str, Any]) -> dict[str, Any]:
        """Writes a part of a file. The first part creates the file and its directories."""
        path, data = place(op), self.given(op)
        flags = os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC
        if not op["start"]:
            if not os.path.lexists(os.path.dirname(path)):
                os.makedirs(os.path.dirname(path), exist_ok=True)
            flags |= os.O_CREAT | os.O_TRUNC
        fd = os.open(path, flags, 0o666)
        try:
            write_at(fd, data, op["start"])
        finally:
            os.close(fd)
        return {}

    def do_stage(self, op: dict[str, Any]) -> dict[str, Any]:
        """The file for data too large for an operation, or for an answer."""
        return {"fd": self.staging, "cwd": os.getcwd()}

    def given(self, op: dict[str, Any]) -> bytes:
        if "data" in op:
            return base64.b64decode(op["data"])
        return os.pread(self.staging, STAGED, 0)

    def passed_on(self, data: bytes) -> dict[str, Any]:
        if len(data) <= INLINE:
            return {"data": text(data)}
        os.ftruncate(self.staging, 0)
        write_at(self.staging, data, 0)
        return {"staged": len(data)}


def anonymous() -> int:
    """An unnamed file."""
    try:
        return os.memfd_create("assay")
    except (AttributeError, OSError):
        with tempfile.TemporaryFile() as f:
            return os.dup(f.fileno())


def nonblocking_pipe() -> tuple[int, int]:
    ends = os.pipe()
    for fd in ends:
        os.set_blocking(fd, False)
    return ends


def poke(fd: int) -> None:
    try:
        os.write(fd, b"x")
    except OSError:
        pass  # it is full, so its reader will wake up


def drain(fd: int) -> None:
    try:
        while os.read(fd, 4096):
            pass
    except OSError:
        pass


def text(data: bytes | bytearray) -> str:
    return base64.b64encode(data).decode("ascii")


def write_at(fd: int, data: bytes, start: int) -> None:
    os.lseek(fd, start, os.SEEK_SET)
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(fd, rest) :]


def directory(path: str) -> str:
    """Checks a directory to start in. Popen's own error would not show which of two files is missing."""
    if not stat.S_ISDIR(os.stat(path).st_mode):
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path)
    return path


def place(op: dict[str, Any]) -> str:
    return os.path.join(str(op["cwd"]), str(op["path"]))


KEEPER = Keeper()
DONE: collections.OrderedDict[str, dict[str, Any]] = collections.OrderedDict()


def interrupted(*_: Any) -> None:
    """Handles an interrupt: an operation is short and continues; a wait ends."""
    KEEPER.gives_way = True
    poke(KEEPER.tell)


def do(op: dict[str, Any]) -> dict[str, Any]:
    """Does one operation and returns its answer, or its error."""
    KEEPER.gives_way = False
    signal.signal(signal.SIGINT, interrupted)
    KEEPER.forget(op["forget"])
    if op["op"] in DONE:
        return DONE[op["op"]]
    try:
        answer: dict[str, Any] = getattr(KEEPER, "do_" + op["do"])(op)
    except OSError as e:
        answer = {
            "error": "os",
            "errno": errno.errorcode.get(e.errno or 0, "EIO"),
            "text": e.strerror or str(e),
            "file": named(e),
        }
    except (ValueError, MemoryError, subprocess.SubprocessError) as e:
        answer = {"error": "value", "text": f"{type(e).__name__}: {e}"}
    if "processes" not in answer and "staged" not in answer:
        DONE[op["op"]] = answer
        while len(DONE) > ANSWERS:
            DONE.popitem(last=False)
    return answer


def named(e: OSError) -> str:
    """The file in an error."""
    name = e.filename
    return os.fsdecode(name)[:1000] if isinstance(name, (str, bytes)) else ""
