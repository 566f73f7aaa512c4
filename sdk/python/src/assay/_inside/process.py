"""A process and its pipes."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from typing import Any

PIECE = 64 << 10
MARK = "ASSAY_EXECUTION"
"""Environment variable that all processes of one execution inherit, even if they leave its session and its tree."""

ROUNDS = 20
"""Number of searches for processes that were started while others were killed."""

LAST_WORDS = 0.25
"""Seconds to wait for output after a process has ended, while other processes still have its pipes."""


class Output:
    """The output of a process on one stream that was not taken yet."""

    def __init__(self, fd: int, most: int, keeps: bool) -> None:
        self.fd = fd
        self.most = most
        self.keeps = keeps  # whether output beyond most stays in the pipe; else it is dropped
        self.data = bytearray()
        self.base = 0  # number of bytes taken before
        self.cut = False
        self.open = True
        os.set_blocking(fd, False)

    @property
    def wanted(self) -> bool:
        """Whether to read the available output."""
        return self.open and not (self.keeps and len(self.data) >= self.most)

    def read(self) -> bool:
        """Reads once. False: there is nothing at the moment, or at the end."""
        try:
            piece = os.read(self.fd, PIECE)
        except BlockingIOError:
            return False
        except OSError:
            piece = b""
        if not piece:
            self.open = False
            return False
        kept = piece if self.keeps else piece[: max(self.most - len(self.data), 0)]
        self.data += kept
        self.cut = self.cut or len(kept) < len(piece)
        return True

    def forget(self, start: int) -> None:
        """Drops the output before start."""
        if start > self.base:
            del self.data[: start - self.base]
            self.base = start


class Process:
    """A process and its pipes."""

    def __init__(
        self, popen: subprocess.Popen[bytes], most: int, keeps: bool, timeout: float | None, mark: str
    ) -> None:
        assert popen.stdout
        assert popen.stderr
        self.popen = popen
        self.mark = f"{MARK}={mark}".encode()
        self.pipes = {pipe_of(popen.stdout.fileno()), pipe_of(popen.stderr.fileno())}
        self.out, self.err = Output(popen.stdout.fileno(), most, keeps), Output(popen.stderr.fileno(), most, keeps)
        self.began = time.monotonic()
        self.deadline = None if timeout is None else self.began + timeout
        self.code: int | None = None
        self.exited = 0.0
        self.ended = False  # whether its output is complete, too
        self.timed_out = False
        self.forgotten = False
        self.queue = bytearray()  # for its stdin
        self.closing = False
        self.stdin = None if popen.stdin is None else popen.stdin.fileno()
        if self.stdin is not None:
            os.set_blocking(self.stdin, False)
        self.pidfd = open_pidfd(popen.pid)

    def check(self, now: float) -> None:
        """Checks whether it has ended, or has to be ended."""
        if self.code is None:
            self.code = self.popen.poll()
            self.exited = now
        if self.code is None:
            if self.deadline is not None and now >= self.deadline:
                self.timed_out, self.deadline = True, None
                self.kill()
            elif (self.out.cut or self.err.cut) and not self.forgotten:
                self.kill()
        elif not self.ended:
            if self.pidfd is not None:
                os.close(self.pidfd)
                self.pidfd = None
            for o in (self.out, self.err):
                while o.wanted and o.read():
                    pass
            self.ended = not (self.out.wanted or self.err.wanted) or now - self.exited >= LAST_WORDS
            if self.ended:
                self.close_stdin()

    def kill(self) -> None:
        """Kills the process and all of its descendants, in any session and with any parent."""
        leader = self.popen.pid if self.code is None else None
        if leader is not None:
            signal_group(leader, signal.SIGSTOP)  # so that it starts no more of them
        for _ in range(ROUNDS):
            found = self.started(leader)
            for number in (signal.SIGSTOP, signal.SIGKILL):
                for pid in found:
                    try:
                        os.kill(pid, number)
                    except OSError:
                        pass
            if not found:
                break
        if leader is not None:
            signal_group(leader, signal.SIGKILL)

    def started(self, leader: int | None) -> list[int]:
        """The living processes of this execution: the leader, those with its mark or pipes, and their descendants."""
        own = {os.getpid()}
        children: dict[int, list[int]] = {}
        dead: set[int] = set()
        found: list[int] = []
        for name in os.listdir("/proc"):
            if not name.isdigit():
                continue
            try:
                with open(f"/proc/{name}/stat") as f:
                    state, parent = f.read().rpartition(")")[2].split()[:2]
            except (OSError, ValueError):
                continue
            pid = int(name)
            children.setdefault(int(parent), []).append(pid)
            if state in "ZX":
                dead.add(pid)
            elif pid not in own and (pid == leader or self.marked(name)):
                found.append(pid)
        seen = set(found)
        for pid in found:
            for child in children.get(pid, ()):
                if child not in seen and child not in own:
                    seen.add(child)
                    found.append(child)
        return [pid for pid in found if pid not in dead]

    def marked(self, pid: str) -> bool:
        """Whether a process has the mark of this execution, or writes to its pipes."""
        try:
            with open(f"/proc/{pid}/environ", "rb") as f:
                if self.mark in f.read().split(b"\0"):
                    return True
        except OSError:
            pass
        for fd in ("1", "2"):
            try:
                if os.readlink(f"/proc/{pid}/fd/{fd}") in self.pipes:
                    return True
            except OSError:
                pass
        return False

    def feed(self) -> None:
        """Writes the queued bytes to its stdin."""
        if self.stdin is None:
            return
        try:
            while self.queue:
                del self.queue[: os.write(self.stdin, self.queue[:PIECE])]
        except BlockingIOError:
            return
        except OSError:
            self.closing = True  # it no longer reads
            self.queue.clear()
        if self.closing:
            self.close_stdin()

    def close_stdin(self) -> None:
        if self.stdin is not None and self.popen.stdin is not None:
            self.stdin = None
            self.queue.clear()
            try:
                self.popen.stdin.close()
            except OSError:
                pass

    def pause(self, now: float) -> float | None:
        """Seconds until its next check without an event; None if there is no need."""
        if self.ended:
            return None
        if self.code is not None:
            return max(self.exited + LAST_WORDS - now, 0.0)
        left = None if self.deadline is None else max(self.deadline - now, 0.0)
        if self.pidfd is None:  # an old kernel, or another system
            tick = 0.02 if now - self.began < 2 else 0.1
            left = tick if left is None else min(left, tick)
        return left

    def status(self) -> dict[str, Any]:
        out = {
            name: {"start": o.base, "end": o.base + len(o.data), "cut": o.cut, "open": o.open}
            for name, o in (("stdout", self.out), ("stderr", self.err))
        }
        return {"code": self.code if self.ended else None, "timed_out": self.timed_out, **out}


def open_pidfd(pid: int) -> int | None:
    try:
        return os.pidfd_open(pid)
    except (AttributeError, OSError):
        return None


def pipe_of(fd: int) -> str:
    """The name of a descriptor's pipe in /proc."""
    return f"pipe:[{os.fstat(fd).st_ino}]"


def signal_group(pid: int, number: int) -> None:
    try:
        os.killpg(pid, number)
    except OSError:
        pass
