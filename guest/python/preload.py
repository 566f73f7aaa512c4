"""Import modules ahead of the programs that want them, and be forked for each.

A process of a box, confined as a program is, becomes this. On descriptor 6 the worker
names modules; it imports them, puts them out of sight, tells what they cost, and
forks once. The two processes that come of that never run: the worker holds both, and has
the second one forked for each program, in its box: see frozen.go. What is here after
the fork is what such a program begins with.

So nothing of a program can get into another's: what they are forked from is as it was
when its imports were done.

Standard library only, for Python 3.8 and later.
"""

import gc
import json
import os
import random
import stat
import sys
import time

child = sys.modules["_assay_child"]
bootstrap = sys._frozen_importlib if hasattr(sys, "_frozen_importlib") else sys.modules["_frozen_importlib"]

WORKER = 6  # the connection to the worker; in a program, its slot
STREAMS = 1, 2
MAX_TEXT = 400
KEPT = ".cache", ".config"  # of the home directory: what is there is made again if it is missing


class Unusable(Exception):
    """Programs that are forked from here would not be what they are without it."""


def serve(program, rehearsal):
    """Import what the worker names. Returns what child.wait does, in the processes that are forked for programs."""
    worker = child._socket.socket(fileno=WORKER)
    asked = json.loads(worker.recv(child.MAX_MESSAGE))
    try:
        look = getattr(program, "look", None)
        if look:
            look()
        took, unseeded = bring(asked["modules"])
        seeds = generators(unseeded)
    except Unusable as e:
        tell(worker, {"unusable": str(e)[:MAX_TEXT]})
        os._exit(1)
    hide(asked["modules"])
    gc.collect()
    gc.freeze()
    tell(worker, {"took": took, "names": sorted({name.partition(".")[0] for name in hidden})})
    worker.recv(16)
    if os.fork() > 0:
        os._exit(1)  # nobody holds it: the worker is gone
    return begin(worker, seeds, rehearsal)


def tell(worker, what):
    worker.send(json.dumps(what).encode()[: child.MAX_MESSAGE])


def begin(slot, seeds, rehearsal):
    """What a program begins with, in its box: the worker has put its slot in the place of the connection."""
    os.setsid()
    for seed in seeds:
        seed()
    os.write(WORKER, b"w")
    what = child.wait(slot, rehearsal)
    if what is None:
        os._exit(0)
    slot.detach()
    return what


# Imports


def bring(modules):
    """Import modules. Returns what each took, in milliseconds of CPU, and the generators that nobody gave a seed."""
    files, unseeded = set(os.listdir("/proc/self/fd")), []
    streams = [os.dup(fd) for fd in STREAMS]
    said = os.memfd_create("said")
    for fd in STREAMS:
        os.dup2(said, fd)

    def seed(self, a=None, *args, **kw):
        unseeded[:] = [r for r in unseeded if r is not self] + ([self] if a is None else [])
        return usual(self, a, *args, **kw)

    usual, random.Random.seed, bootstrap._find_and_load = random.Random.seed, seed, watch
    took = {}
    try:
        for place, name in enumerate(modules):
            before, began = len(sys.modules), time.process_time()
            try:
                __import__(name)
            except BaseException as e:
                raise Unusable("import %s: %s: %s" % (name, type(e).__name__, e))
            took[name] = round((time.process_time() - began) * 1000, 3)
            new.append(list(sys.modules)[before:])
    finally:
        random.Random.seed, bootstrap._find_and_load = usual, original
        child.harness._flush()
        silent = os.fstat(said).st_size == 0
        for fd, was in zip(STREAMS, streams):
            os.dup2(was, fd)
            os.close(was)
        os.close(said)
    if not silent:
        raise Unusable("an import printed something")
    leftovers(files)
    return took, unseeded


new = []  # for each import, the names that it brought
within = {}  # of each module that was loaded, the names that came with it
original = bootstrap._find_and_load


def watch(name, import_):
    before = len(sys.modules)
    module = original(name, import_)
    within[name] = list(sys.modules)[before:]
    return module


def leftovers(before):
    """Raise Unusable for what would be shared by all that is forked, or would be missing in it."""
    for name in os.listdir("/proc/self/fd"):
        try:
            kind = os.fstat(int(name)).st_mode
        except OSError:
            continue  # that which lists the others
        if name not in before and not stat.S_ISCHR(kind):
            raise Unusable("an import left a file open")
    if any(child._signal.getitimer(which)[0] for which in range(3)) or timers():
        raise Unusable("an import left a timer running")
    for place in writable():
        for here, _, files in os.walk(place):
            inside = os.path.relpath(here, os.environ.get("HOME") or "/")
            if files and inside.partition("/")[0] not in KEPT:
                raise Unusable("an import left files")


def timers():
    try:
        with open("/proc/self/timers") as f:
            return f.read()
    except OSError:
        return ""


def writable():
    with open("/proc/self/mountinfo") as f:
        for line in f:
            fields = line.split()
            if fields[3][:2] == "/w" and fields[3][2:].isdigit() and "rw" in fields[5].split(","):
                yield fields[4]  # those of a slot that nobody has taken have plain names


def generators(unseeded):
    """What seeds the generators anew that no program may have in common with another.

    The module random sees to its own after a fork; the system's and the seed of hashes are nobody's.
    Generators that a package gave a seed stay as it wanted them.
    """
    seeds = [r.seed for r in unseeded if r is not random._inst]
    numpy = sys.modules.get("numpy.random")
    if numpy is not None:
        seeds.append(numpy.seed)
        usual = getattr(numpy.mtrand._rand, "_bit_generator", None)
        for bits in [o for o in gc.get_objects() if isinstance(o, numpy.BitGenerator) and o is not usual]:
            entropy = getattr(getattr(bits, "seed_seq", None) or getattr(bits, "_seed_seq", None), "entropy", None)
            if isinstance(entropy, int) and entropy >> 64:  # which is the system's, and no package's choice
                seeds.append(lambda bits=bits: setattr(bits, "state", type(bits)().state))
    return seeds


# Out of sight: a program finds what a fresh interpreter has until it imports something, and then what that brings.

hidden = {}  # by name
ours = {}  # the same, and for good
brings = {}  # of a name, those that come with it


def hide(modules):
    everything = []
    for name, names in zip(modules, new):
        everything += names
        brings[name] = list(everything)
    for name in everything:
        if name in sys.modules and name not in hidden:
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
    """Whether name means what was imported: a program may have put something else in its way."""
    spec, was = bootstrap._find_spec(name, None), getattr(hidden[name], "__spec__", None)
    return spec is not None and was is not None and spec.origin == was.origin
