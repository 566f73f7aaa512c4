"""A process and its pipes."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from typing import Any

PIECE = 64 << 10
LAST_WORDS = 0.25
"""Seconds for which output is waited for after a process has ended, while others still have its pipes."""


class Output:
    """What a process wrote to one of its streams and nobody has taken yet."""

    def __init__(self, fd: int, most: int, keeps: bool) -> None:
        self.fd = fd
        self.most = most
        self.keeps = keeps  # what is above most stays in the pipe; else it is thrown away
        self.data = bytearray()
        self.base = 0  # bytes before these, which were taken
        self.cut = False
        self.open = True
        os.set_blocking(fd, False)

    @property
    def wanted(self) -> bool:
        """Whether to read what there is."""
        return self.open and not (self.keeps and len(self.data) >= self.most)

    def read(self) -> bool:
        """Reads once. False: there is nothing at the moment, or there will be no more."""
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
        """What is before start was taken."""
        if start > self.base:
            del self.data[: start - self.base]
            self.base = start


class Process:
    """A process and its pipes."""

    def __init__(self, popen: subprocess.Popen[bytes], most: int, keeps: bool, timeout: float | None) -> None:
        assert popen.stdout
        assert popen.stderr
        self.popen = popen
        self.out, self.err = Output(popen.stdout.fileno(), most, keeps), Output(popen.stderr.fileno(), most, keeps)
        self.began = time.monotonic()
        self.deadline = None if timeout is None else self.began + timeout
        self.code: int | None = None
        self.exited = 0.0
        self.ended = False  # and its output is complete
        self.timed_out = False
        self.forgotten = False
        self.queue = bytearray()  # for its stdin
        self.closing = False
        self.stdin = None if popen.stdin is None else popen.stdin.fileno()
        if self.stdin is not None:
            os.set_blocking(self.stdin, False)
        self.pidfd = open_pidfd(popen.pid)

    def check(self, now: float) -> None:
        """Sees whether it has ended, or has to."""
        if self.code is None:
            self.code = self.popen.poll()
            self.exited = now
        if self.code is None:
            if self.deadline is not None and now >= self.deadline:
                self.timed_out, self.deadline = True, None
                kill_tree(self.popen.pid)
            elif (self.out.cut or self.err.cut) and not self.forgotten:
                kill_tree(self.popen.pid)
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

    def feed(self) -> None:
        """Writes to its stdin what is queued."""
        if self.stdin is None:
            return
        try:
            while self.queue:
                del self.queue[: os.write(self.stdin, self.queue[:PIECE])]
        except BlockingIOError:
            return
        except OSError:
            self.closing = True  # it does not read any more
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
        """Seconds after which to check it, whatever happens; None if there is no need."""
        if self.ended:
            return None
        if self.code is not None:
            return max(self.exited + LAST_WORDS - now, 0.0)
        left = None if self.deadline is None else max(self.deadline - now, 0.0)
        if self.pidfd is None:  # an old kernel, or another one
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


def kill_tree(pid: int) -> None:
    """Kills the group of a process that has not been waited for, and all its descendants."""
    signal_group(pid, signal.SIGSTOP)  # so that it starts no more of them
    for p in descendants(pid):
        try:
            os.kill(p, signal.SIGKILL)
        except OSError:
            pass
    signal_group(pid, signal.SIGKILL)


def signal_group(pid: int, number: int) -> None:
    try:
        os.killpg(pid, number)
    except OSError:
        pass


def descendants(pid: int) -> list[int]:
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat") as f:
                    parent = int(f.read().rpartition(")")[2].split()[1])
            except (OSError, ValueError, IndexError):
                continue
            children.setdefault(parent, []).append(int(name))
    found = [pid]
    for p in found:
        found.extend(children.get(p, ()))
    return found
