"""An honest job that uses a little of every resource that the kernel counts, repeatedly, while attacks run beside
it. It prints one "round" at its beginning, and each refusal. It ends after as many rounds as ROUNDS sets. Without
ROUNDS it runs until it is killed."""

import ctypes
import fcntl
import mmap
import os
import select
import signal
import socket
import sys
import tempfile
import threading
import time

libc = ctypes.CDLL(None, use_errno=True)


def call(name, *args):
    got = getattr(libc, name)(*args)
    if got == -1:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), name)
    return got


def same(got, want):
    if got != want:
        raise ValueError("got %r" % (got,))


def pipe():
    r, w = os.pipe()
    os.set_blocking(w, False)
    same(os.write(w, bytes(64 << 10)), 64 << 10)  # what one holds, unless its user has too many
    os.close(r), os.close(w)


def inflight():
    a, b = socket.socketpair()
    with a, b:
        socket.send_fds(a, [b"x"], [0] * 16)
        _, got, _, _ = socket.recv_fds(b, 8, 16)
        for fd in got:
            os.close(fd)
        same(len(got), 16)


def inotify():
    fd = call("inotify_init1", os.O_NONBLOCK)
    try:
        for d in "/tmp", "/workspace":
            call("inotify_add_watch", fd, d.encode(), 0x100)  # IN_CREATE
        name = "/tmp/neighbour-%d" % os.getpid()
        open(name, "w").close()
        os.unlink(name)
        same(name[5:].encode() in os.read(fd, 4096), True)
    finally:
        os.close(fd)


def timers():
    made = []
    event = (ctypes.c_char * 64)()
    ctypes.c_int.from_buffer(event, 12).value = 1  # SIGEV_NONE
    try:
        for _ in range(32):
            t = ctypes.c_void_p()
            call("timer_create", time.CLOCK_MONOTONIC, event, ctypes.byref(t))
            made.append(t)
    finally:
        for t in made:
            call("timer_delete", t)


def signals():
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGRTMIN])
    for _ in range(32):
        call("sigqueue", os.getpid(), int(signal.SIGRTMIN), None)
    for _ in range(32):
        same(signal.sigtimedwait([signal.SIGRTMIN], 1) is not None, True)


def pty():
    ours, theirs = os.openpty()
    os.write(theirs, b"hello")
    same(os.read(ours, 5), b"hello")
    os.close(ours), os.close(theirs)


def tcp():
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as c:
        s, _ = server.accept()
        with s:
            c.sendall(bytes(100_000))
            got = 0
            while got < 100_000:
                got += len(s.recv(65536))


def udp():
    with socket.socket(type=socket.SOCK_DGRAM) as a, socket.socket(type=socket.SOCK_DGRAM) as b:
        a.bind(("127.0.0.1", 0))
        a.settimeout(5)
        for _ in range(4):
            b.sendto(bytes(8000), a.getsockname())
            same(len(a.recv(9000)), 8000)


def unix():
    a, b = socket.socketpair()
    with a, b:
        a.setblocking(False)
        same(a.send(bytes(64 << 10)), 64 << 10)


def interfaces():
    same([n for _, n in socket.if_nameindex()], ["lo"])


def locks():
    with tempfile.TemporaryFile() as f:
        fcntl.lockf(f, fcntl.LOCK_EX | fcntl.LOCK_NB, 10, 5)
        fcntl.flock(f, fcntl.LOCK_EX | fcntl.LOCK_NB)


def epoll():
    with select.epoll() as e:
        fds = [os.eventfd(0) for _ in range(32)]
        for fd in fds:
            e.register(fd, select.EPOLLIN)
        os.eventfd_write(fds[7], 1)
        same(e.poll(1), [(fds[7], select.EPOLLIN)])
        for fd in fds:
            os.close(fd)


def sysv():
    segment = call("shmget", 0, 65536, 0o1600)
    call("shmctl", segment, 0, None)
    queue = call("msgget", 0, 0o1600)
    call("msgctl", queue, 0, None)
    semaphore = call("semget", 0, 4, 0o1600)
    call("semctl", semaphore, 0, 0)


def processes():
    pid = os.fork()
    if pid == 0:
        os._exit(7)
    same(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), 7)
    t = threading.Thread(target=time.time)
    t.start()
    t.join()


def memory():
    with mmap.mmap(-1, 8 << 20) as m:
        m[::4096] = bytes(2048)
        at = ctypes.addressof(ctypes.c_char.from_buffer(m))
        call("mlock", ctypes.c_void_p(at), 16384)
        call("munlock", ctypes.c_void_p(at), 16384)


def files():
    with tempfile.TemporaryFile() as f:
        f.write(bytes(1 << 20))
        f.flush()
        same(os.fstat(f.fileno()).st_size, 1 << 20)


PROBES = pipe, inflight, inotify, timers, signals, pty, tcp, udp, unix, interfaces, locks, epoll, sysv, processes, memory, files
began = time.monotonic()
said = set()


def refused(what):
    if what not in said and len(said) < 50:
        said.add(what)
        print("after %.1f s: %s" % (time.monotonic() - began, what), flush=True)


def main():
    for once in PROBES:
        once()
    print("round", flush=True)
    for _ in range(int(os.environ.get("ROUNDS", "0")) or sys.maxsize):
        for probe in PROBES:
            try:
                probe()
            except Exception as e:
                refused("%s: %s: %s" % (probe.__name__, type(e).__name__, e))
        time.sleep(0.05)


try:
    main()
except Exception as e:
    refused("at its beginning: %s: %s" % (type(e).__name__, e))
    raise
