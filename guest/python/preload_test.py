"""Programs that are forked from one preloaded interpreter share no random state.

Two interpreters import each module. A value that differs between them, but is equal in two forks of one of them, is
shared random state. ASSAY_FORKS=whole tests every module of the standard library and the packages of PACKAGES, which
it installs. Otherwise a sample of the standard library is tested.
"""

import json
import os
import subprocess
import sys
import tempfile
import types
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))

ALWAYS = (
    "asyncio concurrent.futures email.generator hashlib http.client http.cookiejar imaplib logging mailbox mimetypes multiprocessing "
    "multiprocessing.connection multiprocessing.managers multiprocessing.pool multiprocessing.synchronize random secrets smtplib ssl tempfile "
    "urllib.request uuid wsgiref.handlers xmlrpc.client"
).split()
# these draw random bytes when they are imported, and so are not preloaded
DRAWING = {"crypt"}
# these start a browser, print, or open windows
NEVER = {"antigravity", "this", "idlelib", "turtledemo", "test", "__main__"}
PACKAGES = (
    "aiohttp attrs beautifulsoup4 boto3 cattrs certifi cffi click cryptography Django Faker fastapi Flask fsspec httpx hypothesis idna Jinja2 "
    "joblib jsonschema lxml Markdown matplotlib more-itertools mpmath networkx nltk numpy openpyxl orjson packaging pandas Pillow psutil pyarrow "
    "pydantic Pygments pymongo pytest python-dateutil pytz PyYAML redis regex requests rich scikit-learn scipy seaborn shortuuid sortedcontainers "
    "SQLAlchemy sympy tabulate tornado tqdm urllib3 websockets Werkzeug"
).split()
NAMES = {
    "beautifulsoup4": "bs4", "Django": "django", "Faker": "faker", "Flask": "flask", "Jinja2": "jinja2", "Markdown": "markdown", "more-itertools": "more_itertools",
    "Pillow": "PIL.Image", "Pygments": "pygments", "python-dateutil": "dateutil", "PyYAML": "yaml", "scikit-learn": "sklearn.model_selection",
    "SQLAlchemy": "sqlalchemy", "Werkzeug": "werkzeug", "attrs": "attr", "scipy": "scipy.stats", "cryptography": "cryptography.fernet", "pymongo": "bson",
    "numpy": "numpy.random",
}  # fmt: skip

PROBES = {
    "random": "random.random()", "secrets": "secrets.token_hex(8)", "uuid": "str(uuid.uuid4())", "uuid, clock": "uuid.uuid1().clock_seq",
    "tempfile": "tempfile.mktemp()", "multiprocessing": "bytes(multiprocessing.current_process().authkey).hex()", "ssl": "ssl.RAND_bytes(8).hex()",
    "email.generator": "email.generator._make_boundary()", "numpy.random": "[float(numpy.random.random()), float(numpy.random.default_rng().random())]",
}  # fmt: skip


def values(modules):
    """Return the possibly random values of modules, by path."""
    found, seen = {}, set()
    with open("/proc/self/maps") as f:
        mapped = [[int(end, 16) for end in line.split()[0].split("-")] for line in f]

    def is_address(value):
        """Report whether value is an address, which all forks of one interpreter share."""
        return any(start <= value < end for start, end in mapped)

    def walk(path, value, depth):
        try:
            note(path, value, depth)
        except RuntimeError:  # of a proxy without an object
            pass

    def note(path, value, depth):
        kind = type(value)
        if isinstance(value, (bytes, str)) and len(value) >= 8 and "0x" not in str(value):
            found[path] = repr(value)[:200]
        elif isinstance(value, int) and abs(value) >= 1 << 31 and not is_address(value):
            found[path] = repr(value)[:200]
        elif depth and id(value) not in seen and not isinstance(value, (types.ModuleType, types.FunctionType)):
            seen.add(id(value))
            if kind.__name__ == "Random":
                found[path] = repr(value.getstate())[:200]
            inner = value if isinstance(value, dict) else getattr(value, "__dict__", None)
            if isinstance(value, (list, tuple)):
                inner = dict(enumerate(value[:50]))
            if isinstance(inner, (dict, types.MappingProxyType)):
                for name, more in list(inner.items())[:500]:
                    # of addresses
                    if isinstance(name, (str, int)) and name not in ("__builtins__", "__doc__") and "hash" not in str(name).lower():
                        walk("%s.%s" % (path, name), more, depth - 1)

    for name in modules:
        for attribute, value in list(getattr(sys.modules.get(name), "__dict__", {}).items()):
            if attribute not in ("__builtins__", "__doc__", "__spec__", "__loader__"):
                walk("%s.%s" % (name, attribute), value, 4)
    return found


def forked(run):
    """Return the result of run in a fork."""
    reader, writer = os.pipe()
    if os.fork() == 0:
        try:
            os.close(reader)
            with os.fdopen(writer, "w") as f:
                json.dump(run(), f)
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as f:
        text = f.read()
    os.wait()
    return json.loads(text or '{"failed": true}')


def look(name):
    """Return the values in two programs forked from an interpreter that has imported a module."""
    child = types.ModuleType("_assay_child")
    child.harness, child.writable = types.SimpleNamespace(_flush=lambda: None), lambda: []
    child._signal = __import__("signal")
    sys.modules["_assay_child"] = child
    preload = types.ModuleType("preload")
    with open(os.path.join(HERE, "preload.py")) as f:
        exec(f.read(), preload.__dict__)
    try:
        seeds = preload.reseeders(preload.bring([name], None)[1])
    except preload.Unusable as e:
        return {"unusable": str(e)}

    def program():
        for seed in seeds:
            seed()
        probes = {}
        for probe, code in PROBES.items():
            module = probe.partition(",")[0]
            if module in sys.modules:
                space = {module.partition(".")[0]: sys.modules[module.partition(".")[0]]}
                probes[probe] = eval(code, space)
        return {"values": values([n for n in list(sys.modules) if n not in preload.known or n == "random"]), "probes": probes}

    return {"forks": [forked(program), forked(program)]}


def interpreter(names, path):
    """Return look() for each name in a new interpreter."""
    run = subprocess.run(
        [sys.executable, "-B", os.path.abspath(__file__), json.dumps(names)], env={**os.environ, "PYTHONHASHSEED": "0", "PYTHONPATH": path},
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True,
    )  # fmt: skip
    return json.loads(run.stdout.splitlines()[-1])


class Forks(unittest.TestCase):
    maxDiff = None

    def compare(self, names, path=""):
        """Compare forks of two interpreters. Return why modules are not preloaded."""
        one, other, unusable = interpreter(names, path), interpreter(names, path), {}
        for name in names:
            a, b = one[name], other[name]
            if "unusable" in a or "unusable" in b:
                unusable[name] = a.get("unusable") or b["unusable"]
                continue
            first, second = a["forks"]
            third = b["forks"][0]
            with self.subTest(module=name):
                # a value that the other interpreter has elsewhere is not random: its place follows from addresses
                others = set(third["values"].values())
                shared = [
                    p for p, value in first["values"].items()
                    if second["values"].get(p) == value != third["values"].get(p, value) and value not in others
                ]  # fmt: skip
                self.assertEqual([(p, first["values"][p], third["values"][p]) for p in shared], [], "random state that programs share")
                for probe, value in first["probes"].items():
                    self.assertNotEqual(value, second["probes"][probe], "%s is the same in two programs" % probe)
        return unusable

    def test_the_standard_library(self):
        names = sorted(getattr(sys, "stdlib_module_names", ()))
        names = [n for n in names if n not in NEVER and not n.startswith("_")]
        if os.environ.get("ASSAY_FORKS") != "whole":
            names = names[::9]
        unusable = self.compare(sorted({*names, *ALWAYS}))
        self.assertEqual([(n, why) for n, why in unusable.items() if n in ALWAYS or "random" in why and n not in DRAWING], [])

    def test_packages(self):
        if os.environ.get("ASSAY_FORKS") != "whole":
            return
        with tempfile.TemporaryDirectory() as path:
            for name in PACKAGES:
                subprocess.run([sys.executable, "-m", "pip", "install", "-q", "--target", path, name], stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
            print(self.compare([NAMES.get(n, n) for n in PACKAGES], path), file=sys.stderr)

    def test_modules_that_remember(self):
        """Modules with random state of their own are not preloaded, or their state is renewed."""
        texts = {
            "session": "import uuid\nSESSION = uuid.uuid4().hex",
            "token": "import secrets\nTOKEN = secrets.token_bytes(16)",
            "bound": "from os import urandom\nKEY = urandom(32)",
            "hidden": "import os\nclass Key:\n    __slots__ = ('k',)\nk = Key()\nk.k = os.urandom(8)",
            "number": "import random\nPORT = random.randrange(1 << 40)",
            "seeded": "import random, time\nrandom.seed(time.time())",
            "system": "import random\nID = random.SystemRandom().getrandbits(64)",
            "name": "import tempfile\nNAME = next(tempfile._get_candidate_names())",
        }
        usable = {
            "quiet": "import random, secrets, uuid, os\nfrom os import urandom\nrng = random.Random()\nfixed = random.Random(7)",
            "children": "import multiprocessing\nKEY = 'none'",
        }
        with tempfile.TemporaryDirectory() as path:
            for name, text in {**texts, **usable}.items():
                with open(os.path.join(path, "remembers_%s.py" % name), "w") as f:
                    f.write(text)
            unusable = self.compare(["remembers_" + name for name in {**texts, **usable}], path)
        self.assertEqual({n for n, why in unusable.items() if "random" in why}, {"remembers_" + n for n in texts})


if __name__ == "__main__":
    out = os.dup(1)
    null = os.open(os.devnull, os.O_RDWR)
    for fd in range(3):
        os.dup2(null, fd)
    found = {name: forked(lambda name=name: look(name)) for name in json.loads(sys.argv[1])}
    os.write(out, json.dumps(found).encode())
