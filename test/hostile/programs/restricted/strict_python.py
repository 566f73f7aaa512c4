# tries: make system calls that a snippet does not need, under the allow-list
# outcome: succeeded
# policy: {"syscalls": "strict"}
from hostile import *
import socket
for what, f, args in (("ptrace", libc.ptrace, (0, 0, 0, 0)), ("mount", libc.mount, (b"x", b"/tmp", b"tmpfs", 0, None)), ("unshare", libc.unshare, (0x10000000,)), ("bpf", libc.syscall, (321, 0, None, 0)), ("keyctl", libc.syscall, (250, 0, -3, 0)), ("userfaultfd", libc.syscall, (323, 0)), ("io_uring", libc.syscall, (425, 1, None)), ("perf", libc.syscall, (298, None, 0, -1, -1, 0)), ("name_to_handle", libc.syscall, (303, -100, b"/", None, None, 0)), ("process_vm_readv", libc.syscall, (310, 1, None, 0, None, 0, 0)), ("kcmp", libc.syscall, (312, 1, 1, 0, 0, 0))):
    if f(*args) != -1:
        escaped(what)
contained()
