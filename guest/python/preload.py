"""Import modules in advance, and be forked for the programs that need them.

A process in a box, confined like a program, becomes this. The worker sends names of modules on descriptor 6. It
imports them, hides them, reports their costs, and forks at each request. The resulting processes never run: the
worker stops them, and finally this one, too. It forks them for programs, each in its box: see frozen.go. The code
after the fork is the start of such a program.

So no data of a program can reach another one: the original has the state after its imports.

Standard library only, for Python 3.8 and later.
"""

import sys

known = set(sys.modules)  # visible to every program

import gc  # noqa: E402
import json  # noqa: E402
import os  # noqa: E402
import random  # noqa: E402
import stat  # noqa: E402
import time  # noqa: E402

child = sys.modules["_assay_child"]
bootstrap = sys._frozen_importlib if hasattr(sys, "_frozen_importlib") else sys.modules["_frozen_importlib"]

LINK = 6  # the connection to the worker; in a program, its slot
STREAMS = 1, 2
MAX_TEXT, MAX_NAMES = 400, 100
packed = []  # see zygote.pack
KEPT = ".cache", ".config"  # in the home directory: missing ones are created again


class Unusable(Exception):
    """Forked programs would differ from programs without the preload."""


def serve(program):
    """Import the worker's modules. In the processes forked for programs, return the result of child.wait."""
    worker = child._socket.socket(fileno=LINK)
    asked = json.loads(worker.recv(child.MAX_MESSAGE))
    modules = asked["modules"]
    try:
        took, unseeded = bring(modules, getattr(program, "look", None))
        seeds = reseeders(unseeded)
    except Unusable as e:
        tell(worker, {"unusable": str(e)[:MAX_TEXT]})
        os._exit(1)
    names = sorted({name.partition(".")[0] for name in sys.modules if name not in known})
    tell(worker, {"took": took, "names": names, "inside": inside(modules)}, {"took": took, "names": names})
    hide()
    packed.extend(child.pack())
    gc.freeze()
    for _ in range(asked["copies"]):
        worker.recv(16)  # the request to fork
        if os.fork() == 0:
            return begin(worker, seeds)
    os._exit(1)  # the worker is gone, because it does not hold this process


def tell(worker, what, shorter=None):
    text = json.dumps(what)
    if len(text) > child.MAX_MESSAGE:
        text = json.dumps(shorter)
    worker.send(text.encode())


def begin(slot, seeds):
    """Start a program in its box: the worker has replaced the connection with its slot."""
    os.setsid()
    for seed in seeds:
        seed()
    os.write(LINK, child.BOX_WAITING)
    what = child.wait(slot)
    if what is None:
        os._exit(0)
    slot.detach()
    return what


# Imports


def bring(modules, look):
    """Import modules. Return the milliseconds of CPU of each, and the generators without a seed.

    look, if any, is called first: its imports are visible to every program.
    """
    opened, there, unseeded = set(os.listdir("/proc/self/fd")), contents(), []
    streams = [os.dup(fd) for fd in STREAMS]
    said = os.memfd_create("said")
    for fd in STREAMS:
        os.dup2(said, fd)

    def seed(self, a=None, *args, **kw):
        unseeded[:] = [r for r in unseeded if r is not self] + ([self] if a is None else [])
        usual(self, a, *args, **kw)
        began[id(self)] = random.Random.getstate(self)

    usual, random.Random.seed, bootstrap._find_and_load = random.Random.seed, seed, watch
    began = {id(random._inst): random.getstate()}  # by generator without a package's own seed
    urandom, drawn = os.urandom, []

    def recorded(size):
        data = urandom(size)
        drawn.append(data)
        return data

    os.urandom = sys.modules[os.name].urandom = random._urandom = recorded
    took = {}
    try:
        if look:
            before = len(sys.modules)
            look()
            known.update(list(sys.modules)[before:])
        alone = [apart(name) for name in modules] if len(modules) > 1 else ()
        for place, name in enumerate(modules):
            before, start = len(sys.modules), time.process_time()
            load(name)
            took[name] = round((time.process_time() - start) * 1000, 3)
            brings[name] = alone[place] if alone else list(sys.modules)[before:]
    finally:
        random.Random.seed, bootstrap._find_and_load = usual, original
        os.urandom = sys.modules[os.name].urandom = random._urandom = urandom
        for module in [m for name, m in list(sys.modules.items()) if name not in known]:
            for name in [n for n, value in list(getattr(module, "__dict__", {}).items()) if value is recorded]:
                setattr(module, name, urandom)
        child.harness._flush()
        silent = os.fstat(said).st_size == 0
        for fd, was in zip(STREAMS, streams):
            os.dup2(was, fd)
            os.close(was)
        os.close(said)
    if not silent:
        raise Unusable("an import printed something")
    for _ in range(100):  # a stopping thread may need some time
        if len(os.listdir("/proc/self/task")) == 1:
            break
        time.sleep(0.01)
    leftovers(opened, there)
    if any(random.Random.getstate(r) != began[id(r)] for r in [random._inst] + unseeded):
        raise Unusable("an import drew random numbers")
    account(drawn)
    return took, unseeded


def account(drawn):
    """Raise Unusable if an import drew random bytes for a value that reseeders() does not renew.

    Such a value, for example an identifier of the process, would be equal in all programs.
    """
    explained = {authkey()} | {entropy.to_bytes(16, "big") for _, entropy in generators() if entropy >> 128 == 0}
    explained |= {data[::-1] for data in explained if data}
    if any(data not in explained for data in drawn):
        raise Unusable("an import drew random bytes")


def authkey():
    """Return this process's multiprocessing key, or None without that module."""
    process = sys.modules.get("multiprocessing.process")
    return process and bytes(process.current_process()._config.get("authkey", b""))


def generators():
    """Return numpy's bit generators with their initial entropy, or 0 if unknown."""
    numpy = sys.modules.get("numpy.random")
    if numpy is None:
        return []
    found = []
    for bits in [o for o in gc.get_objects() if isinstance(o, numpy.BitGenerator)]:
        entropy = getattr(getattr(bits, "seed_seq", None) or getattr(bits, "_seed_seq", None), "entropy", None)
        found.append((bits, entropy if isinstance(entropy, int) else 0))
    return found


def load(name):
    try:
        __import__(name)
    except BaseException as e:
        raise Unusable("import %s: %s: %s" % (name, type(e).__name__, e))


def apart(name):
    """Return the names of the modules that an import adds to an interpreter without the others."""
    reader, writer = os.pipe()
    process = os.fork()
    if process == 0:
        try:
            before = len(sys.modules)
            load(name)
            with os.fdopen(writer, "w") as f:
                f.write("\n".join(list(sys.modules)[before:]))
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as f:
        names = f.read().split("\n")
    os.waitpid(process, 0)
    return names


def inside(modules):
    """Return the names in each of modules that are modules, and could be imported from it."""
    import pkgutil

    found = {}
    for name in modules:
        path = getattr(sys.modules[name], "__path__", None)
        if path is not None:
            found[name] = [m.name for m in pkgutil.iter_modules(path) if m.name[:1] != "_"][:MAX_NAMES]
    return found


within = {}  # of each loaded module, the names loaded with it
original = bootstrap._find_and_load


def watch(name, import_):
    before = len(sys.modules)
    module = original(name, import_)
    within[name] = list(sys.modules)[before:]
    return module


def leftovers(opened, there):
    """Raise Unusable for state that all forks would share, or that would be missing in them.

    opened are the descriptors, and there the contents(), from before.
    """
    for name in os.listdir("/proc/self/fd"):
        try:
            kind = os.fstat(int(name)).st_mode
        except OSError:
            continue  # used to list the others
        if name not in opened and not stat.S_ISCHR(kind):
            raise Unusable("an import left a file open")
    if any(child._signal.getitimer(which)[0] for which in range(3)) or timers():
        raise Unusable("an import left a timer running")
    if contents() != there:
        raise Unusable("an import left files")


def contents():
    """Return a value for each path in the scratch that changes when the file is created, changed or removed.

    The scratch may start with the image's content.
    """
    found, home = {}, os.path.normpath(os.environ.get("HOME") or "/")
    for place in child.writable():
        for here, directories, files in os.walk(place):
            if here == home:
                directories[:] = [name for name in directories if name not in KEPT]
            for path in [os.path.join(here, name) for name in directories + files]:
                try:
                    s = os.lstat(path)
                except OSError:
                    continue  # its remover is still running; that is reported elsewhere
                found[path] = s.st_mode if stat.S_ISDIR(s.st_mode) else (s.st_mode, s.st_size, s.st_mtime_ns, s.st_ctime_ns)
    return found


def timers():
    try:
        with open("/proc/self/timers") as f:
            return f.read()
    except OSError:
        return ""


def reseeders(unseeded):
    """Return functions that renew random state, which programs must not share.

    The module random reseeds its own generator after a fork. The system's generator and the hash seed need nothing.
    Generators with a package's own seed stay unchanged.
    """
    seeds = [r.seed for r in unseeded if r is not random._inst]
    process = sys.modules.get("multiprocessing.process")
    if process is not None:
        config, key = process.current_process()._config, process.AuthenticationString
        seeds.append(lambda: config.__setitem__("authkey", key(os.urandom(32))))
    numpy = sys.modules.get("numpy.random")
    if numpy is not None:
        seeds.append(numpy.seed)
        usual = getattr(numpy.mtrand._rand, "_bit_generator", None)
        for bits, entropy in generators():
            if bits is not usual and entropy >> 64:  # the system's entropy, not a package's choice
                seeds.append(lambda bits=bits: setattr(bits, "state", type(bits)().state))
    return seeds


# Hidden modules: a program has the modules of a fresh interpreter, until an import adds hidden ones.

hidden = {}  # by name
ours = {}  # all of ours, permanently
brings = {}  # of a name, its accompanying modules


def hide():
    """Hide all modules except the known ones."""
    for name in [n for n in sys.modules if n not in known]:
        ours[name] = hidden[name] = sys.modules.pop(name)
        brings.setdefault(name, within.get(name, ()))
    within.clear()
    code = find_and_load.__code__.replace(co_filename=original.__code__.co_filename, co_name=original.__name__)
    bootstrap._find_and_load = type(find_and_load)(code, globals(), original.__name__)


def find_and_load(name, import_):
    if name in hidden:
        parent = name.rpartition(".")[0]
        if parent and parent not in sys.modules:
            import_(parent)
        if name in hidden and (sys.modules.get(parent) is ours.get(parent, sys.modules.get(parent)) if parent else found(name)):
            for other in (*brings[name], name):
                module = hidden.pop(other, None)
                if module is not None:
                    sys.modules.setdefault(other, module)
        if name in sys.modules:
            return sys.modules[name]
    return original(name, import_)


def found(name):
    """Report whether name still refers to the hidden module: a program may have shadowed it."""
    spec, was = bootstrap._find_spec(name, None), getattr(hidden[name], "__spec__", None)
    return spec is not None and was is not None and spec.origin == was.origin
