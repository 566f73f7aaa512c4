"""An interpreter that is ready to be forked.

The launcher of a cell starts it as zygote.py KIND ROOT MODULE..., with a connection to the worker as descriptor 3. It
imports the modules and the harness, makes all of it cheap to fork, and forks one process for each requested slot: see
child.py.

The zygote itself never runs user code: it only imports from the operator's image, which is its root. ROOT is + if
programs have a different root, this image with packages on top. The zygote never reads that root; a forked process
does, when it is the program already. The zygote holds CAP_SYS_ADMIN and CAP_SYS_PTRACE in the user namespace of its
cell, as entering a namespace requires, and no capabilities outside of it.

Started as zygote.py without arguments, it forks nothing: its descriptor 3 is the slot of a single job, and it has no
privileges from the start.

Standard library only, for Python 3.8 and later with ctypes. Without them it exits with a message, and the worker
starts a fresh interpreter for each job instead.
"""

import sys

try:
    import ctypes
except ImportError as e:
    sys.exit("the image's python has no ctypes: %s" % e)

import gc
import importlib
import itertools
import marshal
import os
import types

# The most frequent imports of snippets. Each costs every fork a little, and saves the import in each job that needs
# it. hashlib is excluded: it loads OpenSSL, which makes a fork a tenth more expensive.
MODULES = (
    "ast base64 bisect collections contextlib copy dataclasses datetime decimal enum fractions functools "
    "heapq inspect io itertools json linecache math operator random re statistics string textwrap time traceback "
    "types typing"
).split()

# Constants of the kernel's headers.
PROT_READ, PROT_WRITE, PROT_EXEC, MAP_PRIVATE, MAP_ANONYMOUS = 1, 2, 4, 0x02, 0x20
MADV_HUGEPAGE, MADV_COLLAPSE, MREMAP_MAYMOVE, MREMAP_FIXED = 14, 25, 1, 2
HUGE = 2 << 20
THREAD_STACK = 8 << 20

# Our own modules in import order, and their files. The modules for grading and sessions, which some jobs consist of,
# have names that no user code imports.
OURS = {"harness": "harness", "_assay_child": "child"}
SERVICES = {
    "assay_imports": "assay_imports",
    "assay_output": "assay_output",
    "assay_shell": "assay_shell",
    "assay_wire": "assay_wire",
    "assay_code": "assay_code",
    "assay_content": "assay_content",
    "assay_graph": "assay_graph",
    "assay_apart": "assay_apart",
    "assay_lent": "assay_lent",
    "assay_proxy": "assay_proxy",
    "assay_fault": "assay_fault",
    "assay_suite": "assay_suite",
    "assay_async": "assay_async",
    "assay_check": "assay_check",
    "assay_solution": "assay_solution",
    "assay_shared": "assay_shared",
    "_assay_session": "session",
    "_assay_fork": "fork",
}
READIED = "assay_solution", "assay_check", "_assay_session"  # their make_ready creates what each of their jobs needs
WARMED = "_assay_session", "assay_solution", "assay_check"  # their warm_up runs the typical operations of their jobs


def limit_threads():
    """Give threads the usual stack size. The C library takes the default from this process's own limit, which is 64
    GiB.
    """
    c = ctypes.PyDLL(None)
    if not hasattr(c, "pthread_setattr_default_np"):  # in the GNU library
        return
    attributes = ctypes.create_string_buffer(128)  # pthread_attr_t
    if c.pthread_getattr_default_np(attributes) == 0:
        c.pthread_attr_setstacksize(attributes, ctypes.c_size_t(THREAD_STACK))
        c.pthread_setattr_default_np(attributes)


def main(kind, root, modules):
    services = kind == "s"
    code = compiled(services)  # first, because it leaves holes for later allocations
    for name in MODULES + modules:
        try:
            importlib.import_module(name)
        except ImportError as e:
            print("cannot preload %s: %s" % (name, e), file=sys.stderr)
    move_text()
    # A child's objects are adjacent in fresh memory. Pages that it writes to are copied, and the compiler scatters
    # its objects over free holes.
    gc.collect()
    give_back()
    filled = fill()
    load(code)
    harness, child = sys.modules["harness"], sys.modules["_assay_child"]
    gather(child, "child enter check drop_privileges live wait receive become request finish")
    gather(harness, "_execute _parts _write _flush")
    ours = warm_up(services)  # noqa: F841

    child.pack = pack

    def settle():
        # Current objects are permanent: the collector must not touch, and so copy, them.
        gc.collect()
        give_back()
        gc.disable()
        program = harness.prepare()
        if root == "+":
            program = packaged(program)
        filled.extend(fill())
        if services:
            for name in READIED:  # beside the first objects of a child
                sys.modules[name].make_ready()
        gc.freeze()
        return program

    child.serve(kind, bool(modules), settle)


def packaged(program):
    """Return program with the packages of its own root."""
    import site

    added = site.getsitepackages() + [site.getusersitepackages()]
    usual = list(itertools.takewhile(lambda p: p not in added, sys.path[1:]))
    looked = []

    def look():
        if looked:  # before the fork
            return
        looked.append(True)
        first = sys.path[0]
        sys.path[:] = usual
        importlib.invalidate_caches()
        site.main()
        sys.path.insert(0, first)

    def run(request, result_fd):
        look()
        return program(request, result_fd)

    run.look = look
    return run


def compiled(services):
    """Return the code of our modules: name, path, and the code as bytes."""
    here = os.path.dirname(os.path.abspath(__file__))
    code = []
    for name, file in {**OURS, **(SERVICES if services else {})}.items():
        path = os.path.join(here, file + ".py")
        with open(path, "rb") as f:
            code.append((name, path, marshal.dumps(compile(f.read(), path, "exec", dont_inherit=True))))
    return code


def load(code):
    for name, path, text in code:
        module = sys.modules[name] = types.ModuleType(name)
        module.__file__ = path
        exec(marshal.loads(text), module.__dict__)


def gather(module, names):
    """Recreate the functions with these names in adjacent memory."""
    for name in names.split():
        f = getattr(module, name)
        setattr(module, name, types.FunctionType(f.__code__.replace(), f.__globals__, name, f.__defaults__))


def alone():
    """Wait for one job and become it, in its own sandbox."""
    load(compiled(True))
    child = sys.modules["_assay_child"]
    slot = child._socket.socket(fileno=child.ZYGOTE)
    ours = warm_up(True)  # noqa: F841
    program = sys.modules["harness"].prepare()
    gc.collect()
    slot.send(child.BOX_WAITING)
    child.live(slot, program)


def move_text():
    """Move the interpreter's text to huge pages, if the system has some.

    A forked process inherits them as a whole. Pages of a file would need about 60 single faults, and single releases.
    """
    size = HUGE
    inside = ctypes.cast(ctypes.pythonapi.PyEval_EvalCode, ctypes.c_void_p).value
    begin = end = file = 0
    with open("/proc/self/maps") as f:
        for line in f:
            addresses, access, _, device, inode = line.split(None, 5)[:5]
            first, last = (int(x, 16) for x in addresses.split("-"))
            if first != end or file != (device, inode) or "w" in access:
                if begin <= inside < end:
                    break
                begin = last if "w" in access else first
            end, file = last, (device, inode)
    begin, end = -(-begin // size) * size, end // size * size
    length = end - begin
    if length <= 0:
        return
    calls = ctypes.PyDLL(None)  # a separate object: the types below are for these calls only
    span = [ctypes.c_void_p, ctypes.c_size_t]
    calls.mmap.argtypes = span + [ctypes.c_int] * 3 + [ctypes.c_long]
    calls.madvise.argtypes = calls.mprotect.argtypes = span + [ctypes.c_int]
    calls.munmap.argtypes = span
    calls.mremap.argtypes = span + [ctypes.c_size_t, ctypes.c_int, ctypes.c_void_p]
    calls.mmap.restype = calls.mremap.restype = ctypes.c_void_p
    room = calls.mmap(None, length + size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
    if room == ctypes.c_void_p(-1).value:
        return
    at = -(-room // size) * size
    calls.madvise(at, length, MADV_HUGEPAGE)
    ctypes.memmove(at, begin, length)
    moved = (
        calls.mprotect(at, length, PROT_READ | PROT_EXEC) == 0
        and calls.mremap(at, length, length, MREMAP_MAYMOVE | MREMAP_FIXED, begin) == begin
    )
    calls.munmap(room, at - room)
    calls.munmap(at + length, size - (at - room))
    if not moved:
        calls.munmap(at, length)


def warm_up(services):
    """Run jobs, so that first-time costs arise here and not in each child.

    Once is not enough, because the interpreter specializes a function after several runs. Return the running module,
    because a module without references is emptied.
    """
    prepare, scan = sys.modules["harness"].prepare, sys.modules["_assay_child"]._scan
    main = sys.modules["__main__"]
    out, null = os.dup(1), os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    for _ in range(16):
        reader, writer = os.pipe()
        prepare()(scan('{"code": "x = [1]\\nprint(x)", "variables": {}}', 0)[0], writer)  # closes it
        os.close(reader)
    if services:
        for _ in range(16):
            for name in WARMED:
                sys.modules[name].warm_up()
    os.dup2(out, 1)
    os.close(out)
    os.close(null)
    sys.modules["__main__"] = main
    return main


def give_back():
    """Return freed memory to the system: compiling modules leaves holes of many pages.

    Each page mapped here is mapped and unmapped for every child.
    """
    trim = getattr(ctypes.PyDLL(None), "malloc_trim", None)  # in the GNU library
    if trim:
        trim(ctypes.c_size_t(0))


def pack():
    """Make forks of an interpreter with many objects cheap. The caller holds the returned objects meanwhile."""
    gc.collect()
    give_back()
    filled = fill()
    collapse()
    return filled


def collapse():
    """Move all current objects to huge pages, if the system (since Linux 6.1) has some.

    A fork copies an entry for each page, and its end removes it. For 80 MB this takes as long as the rest of a short
    program. A huge page is one entry. When a child writes to one, it gets small pages, of which only the written one
    is copied.
    """
    advise = ctypes.PyDLL(None).madvise  # a separate object: the types are for this call only
    advise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    with open("/proc/self/maps") as f:
        lines = f.readlines()
    for line in lines:
        addresses, access, _, _, inode = line.split(None, 5)[:5]
        begin, end = (int(x, 16) for x in addresses.split("-"))
        begin, end = -(-begin // HUGE) * HUGE, end // HUGE * HUGE
        if access == "rw-p" and inode == "0" and begin < end:
            advise(begin, end - begin, MADV_COLLAPSE)


def fill():
    """Fill all gaps. The caller holds the returned objects for as long as there should be no gaps."""
    filled = fill_pools()
    fill_heap()
    return filled


def fill_pools():
    """Fill the gaps between existing objects.

    New objects of a child then go to fresh, adjacent memory. Otherwise they would go to gaps on many pages, each of
    which would be copied.
    """
    filled = []
    head = sys.getsizeof(b"")
    for size in range(48, 513, 16):
        last = streak = 0
        for _ in range(2000):
            gap = bytes(size - head)
            filled.append(gap)
            streak = streak + 1 if id(gap) == last + size else 0
            last = id(gap)
            if streak == 6:  # a new pool
                break
    return filled


def fill_heap():
    """Fill the holes of the C library's heap, for objects that are too large for pools."""
    calls = ctypes.PyDLL(None)
    if not hasattr(calls, "mallinfo2"):  # in the GNU library since 2.33
        return
    calls.mallinfo2.restype = HeapInfo
    calls.sbrk.restype = calls.malloc.restype = ctypes.c_void_p
    calls.malloc.argtypes, calls.free.argtypes, calls.sbrk.argtypes = [ctypes.c_size_t], [ctypes.c_void_p], [ctypes.c_ssize_t]
    for size in [1 << n for n in range(17, 10, -1)] + list(range(1032, 23, -16)):
        top = calls.sbrk(0) - calls.mallinfo2().keepcost
        for _ in range(2000):
            gap = calls.malloc(size)
            if not gap or gap >= top:
                calls.free(gap)
                break


class HeapInfo(ctypes.Structure):
    """struct mallinfo2."""

    _fields_ = [(name, ctypes.c_size_t) for name in "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost".split()]


if __name__ == "__main__":
    os.environ.clear()
    limit_threads()
    if sys.argv[1] == "alone":
        alone()
    main(sys.argv[1], sys.argv[2], sys.argv[3:])
