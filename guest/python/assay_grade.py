"""Both ends of a graded solution, each in a sandbox of its own.

solution(fd) holds the code under test and answers calls. check(fd) runs check
code in which the solution is a Proxy, whose every call goes to the other
sandbox. The worker is between the two and relays frames: four bytes of length,
big-endian, and a JSON object with the key op. internal/grade/doc.go documents
them, and the encoding of values.

What the solution's process says is never more than a value or an exception: who
reads it decides what that is worth. Nothing that it sends can run code here,
and no operator of its objects is asked how they compare with a value.

Standard library only, for Python 3.8 and later.
"""

import base64
import builtins
import json
import os
import sys
import time

MAX_FRAME = 8 << 20
MAX_NODES = 400_000
MAX_DEPTH = 150
MAX_INT = 1 << 20  # bits
MAX_TEXT = 2 << 10  # of a repr or a message
SOLUTION, CHECK = "<solution>", "<check>"
KEEP = 100_000  # objects that one solution may have handed out


class TooLarge(Exception):
    """A value that does not fit through."""


class Gone(BaseException):
    """The other end does not answer any more."""


# Frames


class Channel:
    def __init__(self, fd):
        self.fd = fd

    def send(self, frame):
        data = json.dumps(frame, check_circular=False).encode("ascii")
        if len(data) > MAX_FRAME:
            raise TooLarge("more than %d MiB" % (MAX_FRAME >> 20))
        data = len(data).to_bytes(4, "big") + data
        while data:
            data = data[os.write(self.fd, data) :]

    def receive(self):
        """The next frame, None at the end."""
        head = self._exactly(4)
        if head is None:
            return None
        body = self._exactly(int.from_bytes(head, "big"))
        return None if body is None else json.loads(body)

    def _exactly(self, n):
        parts = []
        while n > 0:
            part = os.read(self.fd, min(n, 1 << 20))
            if not part:
                return None
            parts.append(part)
            n -= len(part)
        return b"".join(parts)


# Values


class Codec:
    """Encodes and decodes values; refer and resolve say what becomes of others."""

    def __init__(self, refer, resolve):
        self.refer, self.resolve = refer, resolve
        self.shared = {}  # classes of the setup, by name: instances cross by value

    def encode(self, value):
        self.left = MAX_NODES
        self.room = MAX_FRAME - (64 << 10)
        return self._encode(value, 0, set())

    def _encode(self, value, depth, inside):
        kind = type(value)
        if value is None or kind is bool:
            return value
        self.left -= 1
        if self.left < 0:
            raise TooLarge("more than %d values" % MAX_NODES)
        if kind is int:
            if value.bit_length() <= 1024:
                return value
            if value.bit_length() > MAX_INT:
                raise TooLarge("an int of %d bits" % value.bit_length())
            return {"$int": hex(value)}
        if kind is float:
            return value if value - value == 0 else {"$float": repr(value)}
        if kind is str:
            return self._text(value)
        if kind is bytes or kind is bytearray:
            self._spend(len(value) * 4 // 3)
            return {"$" + kind.__name__: base64.b64encode(value).decode()}
        if kind is complex:
            return {"$complex": [self._encode(v, depth, inside) for v in (value.real, value.imag)]}
        if id(value) in inside:
            return {"$other": [kind.__name__, "a %s that contains itself" % kind.__name__]}
        if depth > MAX_DEPTH:
            return {"$other": [_name(kind), "nested deeper than %d" % MAX_DEPTH]}
        inside.add(id(value))
        try:
            return self._container(value, kind, depth + 1, inside)
        finally:
            inside.discard(id(value))

    def _container(self, value, kind, depth, inside):
        if kind is list:
            return [self._encode(v, depth, inside) for v in value]
        if kind is tuple or kind is set or kind is frozenset:
            return {"$" + kind.__name__: [self._encode(v, depth, inside) for v in value]}
        if kind is dict:
            return self._dict(value, depth, inside)
        module, name = getattr(kind, "__module__", ""), kind.__name__
        if module == "collections" and name in ("Counter", "OrderedDict", "defaultdict"):
            return self._dict(value, depth, inside)
        if module == "numpy" and not hasattr(value, "__len__") and hasattr(value, "item"):
            item = value.item()  # a scalar
            if type(item) in (bool, int, float, complex, str):
                return self._encode(item, depth, inside)
        if kind.__bases__ == (tuple,) and type(getattr(kind, "_fields", None)) is tuple:
            return {"$tuple": [self._encode(v, depth, inside) for v in tuple.__iter__(value)]}
        if module + "." + name in STANDARD:
            args = [list(value)] if name == "deque" else list(value.__reduce__()[1])
            return {"$std": [module + "." + name, [self._encode(v, depth, inside) for v in args]]}
        if self.shared.get(name) is kind and not isinstance(value, BaseException) and hasattr(value, "__dict__"):
            return {"$obj": [name, [[k, self._encode(v, depth, inside)] for k, v in vars(value).items()]]}
        return self.refer(value)

    def _text(self, text):
        self._spend(len(text))
        if not text.isascii():
            try:
                text.encode()
            except UnicodeEncodeError:  # lone surrogates do not survive everywhere that JSON goes
                return {"$str": base64.b64encode(text.encode("utf-8", "surrogatepass")).decode()}
        return text

    def _spend(self, size):
        self.room -= size
        if self.room < 0:
            raise TooLarge("more than %d MiB" % (MAX_FRAME >> 20))

    def _dict(self, value, depth, inside):
        items = list(dict.items(value))
        if all(type(k) is str and k.isascii() for k, _ in items):
            if len(items) != 1 or not items[0][0].startswith("$"):
                for k, _ in items:
                    self._spend(len(k))
                return {k: self._encode(v, depth, inside) for k, v in items}
        return {"$dict": [[self._encode(k, depth, inside), self._encode(v, depth, inside)] for k, v in items]}

    def decode(self, j):
        kind = type(j)
        if kind is list:
            return [self.decode(v) for v in j]
        if kind is not dict:
            return j
        if len(j) == 1:
            ((tag, v),) = j.items()
            if tag[:1] == "$":
                return self._tagged(tag[1:], v)
        return {k: self.decode(v) for k, v in j.items()}

    def _tagged(self, tag, v):
        if tag in ("tuple", "set", "frozenset"):
            return getattr(builtins, tag)([self.decode(x) for x in v])
        if tag == "dict":
            return {self.decode(k): self.decode(x) for k, x in v}
        if tag == "int":
            return int(v, 0)
        if tag == "float":
            return float(v)
        if tag == "complex":
            return complex(*[float(self.decode(x)) for x in v])
        if tag == "str":
            return base64.b64decode(v).decode("utf-8", "surrogatepass")
        if tag in ("bytes", "bytearray"):
            return getattr(builtins, tag)(base64.b64decode(v))
        if tag == "std" and v[0] in STANDARD:
            module, name = v[0].rsplit(".", 1)
            return getattr(__import__(module), name)(*[self.decode(x) for x in v[1]])
        if tag == "obj":
            kind = self.shared[v[0]]
            value = kind.__new__(kind)
            vars(value).update((k, self.decode(x)) for k, x in v[1] if type(k) is str)
            return value
        return self.resolve(tag, v)


STANDARD = (
    "fractions.Fraction decimal.Decimal datetime.date datetime.time datetime.datetime datetime.timedelta "
    "builtins.range collections.deque"
).split()


def _name(kind):
    try:
        return _cut(kind.__qualname__, 200)
    except BaseException:
        return "?"


def _cut(text, limit=MAX_TEXT):
    if type(text) is not str:
        text = str.__str__(text) if isinstance(text, str) else "?"
    if len(text) > limit:
        text = text[:limit] + "…"
    return text.encode("utf-8", "backslashreplace").decode()


def _show(value, limit=MAX_TEXT):
    """A capped repr that never raises."""
    try:
        import harness

        return harness._repr(value, limit)
    except ImportError:
        pass
    try:
        return _cut(repr(value), limit)
    except BaseException:
        return "<repr failed>"


def _shared(names, module):
    return {k: v for k, v in names.items() if isinstance(v, type) and v.__module__ == module and v.__name__ == k}


def _module(name):
    """A fresh module to run code in."""
    module = type(sys)(name)
    module.__builtins__ = builtins
    sys.modules[name] = module
    return module


def _compile(code, filename):
    if code.startswith("\ufeff"):
        code = code[1:]
    try:
        import linecache

        linecache.cache[filename] = (len(code), None, code.splitlines(True), filename)
    except ImportError:
        pass
    return compile(code, filename, "exec", dont_inherit=True)


def _line(e, filename):
    """The last line of filename that an exception passed, 0 if none."""
    if isinstance(e, SyntaxError) and e.filename == filename:
        return e.lineno or 0
    line = 0
    tb = e.__traceback__
    while tb is not None:
        if tb.tb_frame.f_code.co_filename == filename:
            line = tb.tb_lineno
        tb = tb.tb_next
    return line


# The solution's side


class Solution:
    def __init__(self, fd):
        self.channel = Channel(fd)
        self.codec = Codec(self._refer, self._resolve)
        self.objects = {}
        self.ids = {}
        self.by_reference = False
        self.code = ""
        self.loaded = False

    def serve(self):
        while True:
            m = self.channel.receive()
            if m is None:
                return
            self.handle(m)

    def handle(self, m):
        op = m["op"]
        if op == "load":
            return self.channel.send(self.load(m))
        if op == "case":
            return self.case(m)
        try:
            answer = self.answer(op, m)
        except Gone:
            raise
        except BaseException as e:
            answer = {"op": "raise", "exception": self.exception(e)}
        self.reply(answer)

    def reply(self, answer):
        try:
            self.channel.send(answer)
        except (TooLarge, ValueError, RecursionError, MemoryError) as e:
            self.channel.send({"op": "raise", "exception": self.exception(e)})

    def load(self, m):
        self.code = m["code"]
        self.by_reference = m.get("by_reference", False)
        names = _module("solution").__dict__
        stage = "setup"
        try:
            if m.get("setup"):
                exec(_compile(m["setup"], "<setup>"), names)
                self.codec.shared = _shared(names, "solution")
            stage = "load"
            exec(_compile(m["code"], SOLUTION), names)
            self.codec.shared = {k: names.get(k) for k in self.codec.shared}
            stage = "function"
            if m.get("function"):
                self.objects[0], self.objects[1] = self.find(names, m["function"])
        except BaseException as e:
            return {"op": "raise", "stage": stage, "exception": self.exception(e)}
        return {"op": "loaded"}

    def find(self, names, path):
        """The function that path names, and the object that its first part names."""
        first, *rest = path.split(".")
        if first not in names:
            near = sorted(k for k, v in names.items() if callable(v) and not k.startswith("_"))[:10]
            raise NameError("%s is not defined%s" % (first, "; there are " + ", ".join(near) if near else ""))
        root = value = names[first]
        for part in rest:
            if isinstance(value, type) and not isinstance(vars(value).get(part), (staticmethod, classmethod, type)):
                value = value()  # a method needs an instance
            value = getattr(value, part)
        if not callable(value):
            raise TypeError("%s is a %s, and cannot be called" % (path, _name(type(value))))
        return value, root

    # Cases

    def case(self, m):
        """Run one case in a process of its own, so that none spoils the next."""
        n = m["id"]
        try:
            sys.stdout.flush()
            sys.stderr.flush()
        except BaseException:
            pass
        try:
            pid = os.fork()
        except OSError:  # not allowed: the worker replaces what breaks
            self.reply(self.one(m, n))
            return self.channel.send({"op": "ended", "id": n})
        if pid == 0:
            code = 70
            try:
                os.setpgid(0, 0)
                self.reply(self.one(m, n))
                code = 0
            finally:
                _flush()
                os._exit(code)
        ended = {"op": "ended", "id": n}
        status = _wait(pid, m["wall"])
        if status is None:
            ended["timeout"] = True
            for kill in os.killpg, os.kill:
                try:
                    kill(pid, 9)
                except OSError:
                    pass
            os.waitpid(pid, 0)
        elif os.WIFSIGNALED(status):
            ended["signal"] = os.WTERMSIG(status)
        else:
            ended["code"] = os.WEXITSTATUS(status)
        self.channel.send(ended)

    def one(self, m, n):
        try:
            args, kwargs = self.codec.decode(m["args"]), self.codec.decode(m["kwargs"])
            value = self.objects[0](*args, **kwargs)
        except BaseException as e:
            return {"op": "raise", "id": n, "exception": self.exception(e)}
        try:
            return {"op": "return", "id": n, "value": self.codec.encode(value)}
        except TooLarge as e:
            return {"op": "raise", "id": n, "problem": "returned %s" % e}
        except BaseException as e:
            return {"op": "raise", "id": n, "problem": "the value cannot be passed on: %s" % _name(type(e))}

    # Calls of a check

    def answer(self, op, m):
        target = self.objects[m["ref"]] if "ref" in m else None
        if op == "call":
            return self.call(target, m)
        if op == "get":
            value = getattr(target, m["name"])
        elif op == "set":
            value = setattr(target, m["name"], self.codec.decode(m["value"]))
        elif op == "next":
            value = next(target)
        elif op == "is":
            value = isinstance(self.objects[m["other"]], target)
        elif op == "special":
            value = SPECIAL[m["name"]](target, *self.codec.decode(m["args"]))
        else:
            raise ValueError("unknown op")
        return {"op": "return", "value": self.codec.encode(value)}

    def call(self, target, m):
        args, kwargs = self.codec.decode(m["args"]), self.codec.decode(m["kwargs"])
        try:
            answer = {"op": "return", "value": self.codec.encode(target(*args, **kwargs))}
        except Gone:
            raise
        except BaseException as e:
            answer = {"op": "raise", "exception": self.exception(e)}
        changed = {}
        for key, before, now in [(str(i), m["args"][i], v) for i, v in enumerate(args)] + [
            (k, m["kwargs"][k], v) for k, v in kwargs.items()
        ]:
            if type(before) in (list, dict):
                after = self.codec.encode(now)
                if json.dumps(after) != json.dumps(before):
                    changed[key] = after
        if changed:
            answer["changed"] = changed
        return answer

    def _refer(self, value):
        if isinstance(value, _Callback):
            return {"$back": value.ref}
        if not self.by_reference:
            return {"$other": [_name(type(value)), _show(value)]}
        ref = self.ids.get(id(value))
        if ref is None:
            if len(self.objects) > KEEP:
                raise TooLarge("more than %d objects" % KEEP)
            ref = self.ids[id(value)] = len(self.objects) + 10
            self.objects[ref] = value
        kind = "iterator" if hasattr(type(value), "__next__") else "class" if isinstance(value, type) else "object"
        return {"$ref": [ref, kind, _name(value if kind == "class" else type(value))]}

    def _resolve(self, tag, v):
        if tag == "ref":
            callback = _Callback(self, v[0])
            return _iterate(callback) if v[1] == "iterator" else callback
        if tag == "back":
            return self.objects[v]
        raise ValueError("unknown tag $" + tag)

    def exception(self, e):
        kind = type(e)
        out = {"type": _name(kind), "module": "", "mro": [], "message": "", "line": 0, "text": "", "args": []}
        try:
            out["mro"] = [_name(k) for k in kind.__mro__[:50]]
            out["module"] = _cut(str(kind.__module__), 200)
            out["line"] = _line(e, SOLUTION)
            if out["line"]:
                out["text"] = _cut(self.code.splitlines()[out["line"] - 1].strip(), 200)
            out["message"] = _cut(e.msg if isinstance(e, SyntaxError) and e.msg else str(e))
            if len(e.args) <= 10:
                args = [self.codec.encode(a) for a in e.args]
                if len(json.dumps(args)) < 64 << 10:
                    out["args"] = args
        except BaseException:
            pass
        return out


class _Callback:
    """A callable of the check: it is called over there."""

    def __init__(self, side, ref):
        self.__dict__.update(side=side, ref=ref)

    def __call__(self, *args, **kwargs):
        codec, channel = self.side.codec, self.side.channel
        channel.send({"op": "call", "ref": self.ref, "args": codec.encode(list(args)), "kwargs": {k: codec.encode(v) for k, v in kwargs.items()}})
        while True:
            m = channel.receive()
            if m is None:
                raise Gone()
            if m["op"] == "return":
                return codec.decode(m["value"])
            if m["op"] == "raise":
                raise Errors.make(m["exception"], codec)
            self.side.handle(m)


def _iterate(more):
    while True:
        item = more()
        if not item:
            return
        yield item[0]


SPECIAL = {
    "len": len, "iter": iter, "bool": bool, "str": str, "repr": repr, "int": int, "float": float, "abs": abs,
    "round": round, "neg": lambda x: -x, "pos": lambda x: +x, "invert": lambda x: ~x, "index": lambda x: x.__index__(),
    "getitem": lambda x, k: x[k], "setitem": lambda x, k, v: x.__setitem__(k, v), "delitem": lambda x, k: x.__delitem__(k),
    "enter": lambda x: type(x).__enter__(x), "exit": lambda x: type(x).__exit__(x, None, None, None),
    "reversed": reversed, "dir": dir,
    "eq": lambda x, y: bool(x == y), "lt": lambda x, y: bool(x < y), "le": lambda x, y: bool(x <= y),
    "gt": lambda x, y: bool(x > y), "ge": lambda x, y: bool(x >= y),
    "add": lambda x, y: x + y, "sub": lambda x, y: x - y, "mul": lambda x, y: x * y, "matmul": lambda x, y: x @ y,
    "truediv": lambda x, y: x / y, "floordiv": lambda x, y: x // y, "mod": lambda x, y: x % y, "pow": lambda x, y: x**y,
    "and": lambda x, y: x & y, "or": lambda x, y: x | y, "xor": lambda x, y: x ^ y,
}  # fmt: skip


def _wait(pid, seconds):
    """The status of a child, None if it takes longer."""
    deadline = time.monotonic() + seconds
    try:
        import select

        fd = os.pidfd_open(pid)
    except (AttributeError, OSError, ImportError):
        fd = -1
    try:
        while True:
            done, status = os.waitpid(pid, os.WNOHANG)
            left = deadline - time.monotonic()
            if done:
                return status
            if left <= 0:
                return None
            if fd >= 0:
                select.select([fd], [], [], left)
            else:
                time.sleep(min(left, 0.002))
    finally:
        if fd >= 0:
            os.close(fd)


def _flush():
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except BaseException:
            pass


# Exceptions that cross


class Errors:
    """Makes exceptions out of what the other sandbox says about one."""

    made = {}
    # Only what a solution might raise on purpose: a class that a test runner
    # gives a meaning of its own, such as unittest.SkipTest, must not be among them.
    modules = "json json.decoder decimal struct binascii re queue configparser csv statistics zlib copy fractions".split()
    # What ends a loop or the interpreter in silence ends it as an error here.
    silent = (StopIteration, StopAsyncIteration, GeneratorExit)

    @classmethod
    def make(cls, said, codec, iterating=False):
        name, message = str(said.get("type"))[:200], str(said.get("message"))[:MAX_TEXT]
        kind = cls.find(name, said, codec)
        if issubclass(kind, cls.silent) and not (iterating and kind is StopIteration):
            kind, message = RuntimeError, "the solution raised " + name
        elif kind is SystemExit:
            kind = cls.derive("SystemExit", SystemExit)
        try:
            args = [codec.decode(a) for a in said.get("args") or []]
            e = kind(*args) if args else kind(message) if message else kind()
        except BaseException:  # it takes other arguments than it keeps
            try:
                e = kind.__new__(kind)
                e.args = (message,)
            except BaseException:
                e = cls.derive(name, Exception if issubclass(kind, Exception) else BaseException)(message)
        return e

    @classmethod
    def find(cls, name, said, codec):
        module = said.get("module")
        shared = codec.shared.get(name)
        if module == "solution" and isinstance(shared, type) and issubclass(shared, BaseException):
            return shared
        if module in cls.modules and module in sys.modules:
            found = getattr(sys.modules[module], name, None)
            if isinstance(found, type) and issubclass(found, Exception):
                return found
        mro = said.get("mro")
        for i, base in enumerate(mro if type(mro) is list else []):
            found = getattr(builtins, base, None) if type(base) is str else None
            if isinstance(found, type) and issubclass(found, BaseException):
                return found if i == 0 and module == "builtins" else cls.derive(name, found)
        return cls.derive(name, Exception)

    @classmethod
    def derive(cls, name, base):
        key = name, base
        if key not in cls.made:
            try:
                cls.made[key] = type(name, (base,), {"__module__": "solution"})
            except BaseException:
                cls.made[key] = base
        return cls.made[key]


# The check's side


class Check:
    def __init__(self, fd):
        import threading

        self.channel = Channel(fd)
        self.codec = Codec(self._refer, self._resolve)
        self.exported = {}
        self.ids = {}
        self.lock = threading.RLock()
        self.calls = 0
        self.last = None  # the last call: its arguments and what came of it
        self.code = ""

    # The solution, over there

    def request(self, m, iterating=False):
        with self.lock:
            try:
                self.channel.send(m)
            except TooLarge as e:
                raise ValueError("an argument of the solution is too large: %s" % e)
            while True:
                m = self.channel.receive()
                if m is None:
                    raise Gone()
                if m["op"] == "call":
                    self.channel.send(self.callback(m))
                    continue
                if m["op"] == "raise":
                    raise Errors.make(m["exception"], self.codec, iterating)
                return m

    def value(self, m, iterating=False):
        got = self.request(m, iterating)
        return self.decode(got["value"])

    def decode(self, j):
        try:
            return self.codec.decode(j)
        except (Exception, RecursionError) as e:
            raise Errors.derive("UnreadableValue", Exception)("the solution returned a value that cannot be read: %s" % _name(type(e)))

    def call(self, ref, args, kwargs):
        self.calls += 1
        self.last = [ref, args, kwargs, None, None]
        sent = {"op": "call", "ref": ref, "args": [self.codec.encode(a) for a in args], "kwargs": {k: self.codec.encode(v) for k, v in kwargs.items()}}
        self.last[1] = [_show(a, 200) for a in args] + ["%s=%s" % (k, _show(v, 200)) for k, v in kwargs.items()]
        last = self.last
        try:
            got = self.request_changing(sent, args, kwargs)
            value = self.decode(got["value"])
        except BaseException as e:
            last[4] = e
            raise
        last[3] = _show(value, 500)
        self.last = last  # a callback may have called as well
        return value

    def request_changing(self, m, args, kwargs):
        with self.lock:
            try:
                self.channel.send(m)
            except TooLarge as e:
                raise ValueError("an argument of the solution is too large: %s" % e)
            while True:
                m = self.channel.receive()
                if m is None:
                    raise Gone()
                if m["op"] != "call":
                    break
                self.channel.send(self.callback(m))
        for key, j in (m.get("changed") or {}).items():
            old = args[int(key)] if key.isdigit() and int(key) < len(args) else kwargs.get(key)
            _merge(old, self.decode(j))
        if m["op"] == "raise":
            raise Errors.make(m["exception"], self.codec)
        return m

    def callback(self, m):
        """Answer a call of something that the check gave away."""
        try:
            f = self.exported[m["ref"]]
            args, kwargs = self.decode(m["args"]), self.decode(m["kwargs"])
            return {"op": "return", "value": self.codec.encode(f(*args, **kwargs))}
        except Gone:
            raise
        except BaseException as e:
            kind = type(e)
            return {"op": "raise", "exception": {
                "type": _name(kind), "module": kind.__module__, "mro": [_name(k) for k in kind.__mro__],
                "message": _cut(str(e), 500), "args": []}}  # fmt: skip

    def _refer(self, value):
        if isinstance(value, Proxy):
            return {"$back": value._assay_ref}
        kind = "iterator" if hasattr(type(value), "__next__") else "function"
        if kind == "iterator":
            value = _Next(value)
        elif not callable(value):
            raise TypeError(
                "a %s cannot be passed to the solution: use plain values, functions, or classes of setup" % _name(type(value))
            )
        ref = self.ids.get(id(value))
        if ref is None:
            ref = self.ids[id(value)] = len(self.exported) + 1
            self.exported[ref] = value
        return {"$ref": [ref, kind, ""]}

    def _resolve(self, tag, v):
        if tag == "ref":
            ref, kind, name = v
            if type(ref) is not int or type(name) is not str:
                raise ValueError("ref")
            return (Iterator if kind == "iterator" else Proxy)(self, ref, name)
        if tag == "back":
            return self.exported[v]
        if tag == "other":
            return Proxy(self, -1, str(v[0]))
        raise ValueError("unknown tag")

    # The verdict

    def run(self, m):
        self.code = m["check"]
        module = _module("__main__")
        names = module.__dict__
        try:
            if m.get("setup"):
                exec(_compile(m["setup"], "<setup>"), names)
                self.codec.shared = _shared(names, "__main__")
        except BaseException as e:
            return self.report("check", 0, e, "setup")
        names["candidate"] = Proxy(self, 0, m["function"])
        names[m["function"].split(".")[0]] = names["candidate"] if "." not in m["function"] else Proxy(self, 1, m["function"])
        before = dict(names)
        if not self.attempt("check", lambda: exec(_compile(self.code, CHECK), names), quiet=True):
            return
        own = {k: v for k, v in names.items() if before.get(k) is not v}
        tests = list(self.tests(own, names["candidate"]))
        if callable(own.get("check")):
            tests.insert(0, ("check", lambda: own["check"](names["candidate"])))
        for i, (name, test) in enumerate(tests):
            self.channel.send({"op": "begin", "code": len(tests) - 1 - i})
            self.attempt(name, test)
        if not tests:
            self.report("check", 0, None)

    def tests(self, own, candidate):
        """Test functions and methods, as pytest and unittest would find them."""
        for name, value in own.items():
            if name.startswith("test") and type(value) is type(_flush):
                if value.__code__.co_argcount - len(value.__defaults__ or ()) == 0:
                    yield name, value
                elif value.__code__.co_varnames[:1] == ("candidate",) and value.__code__.co_argcount == 1:
                    yield name, lambda value=value: value(candidate)
        if "unittest" in sys.modules:
            import unittest

            for name, value in own.items():
                if isinstance(value, type) and issubclass(value, unittest.TestCase):
                    for test in unittest.defaultTestLoader.loadTestsFromTestCase(value):
                        yield test.id().partition(".")[2], _unittest(test)

    def attempt(self, name, f, quiet=False):
        began = time.monotonic()
        self.last = None
        failed = None
        try:
            f()
        except Gone:
            raise
        except BaseException as e:
            failed = e
            if type(e) is SystemExit and e.code in (None, 0, False):
                failed = None  # such as unittest.main
                quiet = False
        if failed is not None or not quiet:
            self.report(name, time.monotonic() - began, failed)
        return failed is None and quiet

    def report(self, name, seconds, e, stage="check"):
        out = {"op": "verdict", "name": _cut(name, 200), "passed": e is None, "calls": self.calls, "wall_ms": seconds * 1000}
        if e is not None:
            try:
                out.update(self.describe(e, stage))
            except Gone:
                raise
            except BaseException as x:
                out["message"] = "the check failed: %s" % _name(type(x))
        self.channel.send(out)

    def describe(self, e, stage):
        filename = CHECK if stage == "check" else "<setup>"
        line = _line(e, filename)
        text = ""
        if line and stage == "check":
            text = _cut(self.code.splitlines()[line - 1].strip(), 200)
        last = self.last
        out = {"type": _name(type(e)), "text": text, "line": line, "stage": stage}
        out["by_solution"] = last is not None and last[4] is e
        out["message"] = _cut(e.msg if isinstance(e, SyntaxError) and e.msg else str(e) if not isinstance(e, Gone) else "", 500)
        if last is not None:
            out["call"] = _cut("(%s)" % ", ".join(last[1]), 300)
            if last[3] is not None:
                out["got"] = _cut(last[3], 500)
        if isinstance(e, AssertionError) and line:
            out["expected"] = self.expected(line)
        return out

    def expected(self, line):
        """What an assert on that line compares with, if it is written down."""
        import ast

        for node in ast.walk(ast.parse(self.code)):
            if isinstance(node, ast.Assert) and node.lineno <= line <= (node.end_lineno or 0):
                test = node.test
                if isinstance(test, ast.Compare) and len(test.ops) == 1 and isinstance(test.ops[0], (ast.Eq, ast.Is)):
                    try:
                        return _cut(repr(ast.literal_eval(test.comparators[0])), 500)
                    except ValueError:
                        return ""
        return ""


def _unittest(test):
    def run():
        import unittest

        result = unittest.TestResult()
        errors = []
        result.addError = result.addFailure = lambda t, err: errors.append(err[1])
        result.addSubTest = lambda t, s, err: errors.append(err[1]) if err else None
        test.run(result)
        if errors:
            raise errors[0]
        if result.testsRun != 1 or result.skipped or result.expectedFailures or result.unexpectedSuccesses:
            raise AssertionError("the test did not run to its end")

    return run


class _Next:
    """An iterator of the check, as something to call."""

    def __init__(self, it):
        self.it = it

    def __call__(self):
        try:
            return [next(self.it)]
        except StopIteration:
            return []


def _merge(old, new):
    """Bring old up to new in place, so that who holds a part of it sees it."""
    kind = type(old)
    if kind is not type(new):
        return False
    if kind is list:
        for i, v in enumerate(new):
            if i < len(old) and _merge(old[i], v):
                new[i] = old[i]
        old[:] = new
    elif kind is dict:
        for k, v in new.items():
            if k in old and _merge(old[k], v):
                new[k] = old[k]
        old.clear()
        old.update(new)
    elif kind is set:
        old.clear()
        old.update(new)
    elif kind is bytearray:
        old[:] = new
    elif kind is tuple:
        if len(old) != len(new):
            return False
        return all([_merge(a, b) or (type(a) is type(b) and a == b) for a, b in zip(old, new)])
    elif hasattr(old, "__dict__") and not isinstance(old, (type, Proxy)) and not callable(old):
        _merge(vars(old), vars(new))
    else:
        return False
    return True


class Proxy:
    """An object of the solution.

    Its methods, items and attributes are asked for over there. How it compares
    with a plain value is not: an object that equals everything would pass every
    test. It equals no value, and another object if the two say so.
    """

    __slots__ = ("_assay_side", "_assay_ref", "_assay_name")

    def __init__(self, side, ref, name):
        for k, v in zip(Proxy.__slots__, (side, ref, name)):
            object.__setattr__(self, k, v)

    def __call__(self, *args, **kwargs):
        return self._assay_side.call(self._assay_ref, args, kwargs)

    def __getattr__(self, name):
        if name.startswith("_assay") or name in ("__set_name__", "__wrapped__", "__array__", "__array_interface__", "__array_struct__"):
            raise AttributeError(name)
        return self._assay_side.value({"op": "get", "ref": self._assay_ref, "name": name})

    def __setattr__(self, name, value):
        side = self._assay_side
        side.value({"op": "set", "ref": self._assay_ref, "name": name, "value": side.codec.encode(value)})

    def __iter__(self):
        return _special(self, "iter")

    def __instancecheck__(self, other):
        if not isinstance(other, Proxy):
            return False
        return self._assay_side.value({"op": "is", "ref": self._assay_ref, "other": other._assay_ref}) is True

    def __hash__(self):
        return hash(self._assay_ref)

    def __eq__(self, other):
        if not isinstance(other, Proxy):
            return NotImplemented  # the other may be something of the check's that compares
        if self._assay_ref == other._assay_ref >= 0:
            return True
        return _special(self, "eq", other) is True

    def __bool__(self):
        return _special(self, "bool") is True

    def __enter__(self):
        return _special(self, "enter")

    def __exit__(self, kind, e, tb):
        return _special(self, "exit") is True and False

    def __repr__(self):
        return "<%s of the solution>" % self._assay_name


class Iterator(Proxy):
    __slots__ = ()

    def __iter__(self):
        return self

    def __next__(self):
        return self._assay_side.value({"op": "next", "ref": self._assay_ref}, iterating=True)


def _special(proxy, name, *args):
    side = proxy._assay_side
    return side.value({"op": "special", "ref": proxy._assay_ref, "name": name, "args": [side.codec.encode(a) for a in args]})


def _define():
    """The operators of a Proxy."""

    def unary(name):
        return lambda self, *args: _special(self, name, *args)

    def binary(name):
        def f(self, other):
            # The other operand may be what the check expects.
            return _special(self, name, other) if isinstance(other, Proxy) else NotImplemented

        return f

    for name in "len str int float abs round neg pos invert index getitem setitem delitem reversed dir".split():
        setattr(Proxy, "__%s__" % name, unary(name))
    for name in "lt le gt ge add sub mul matmul truediv floordiv mod pow and or xor".split():
        setattr(Proxy, "__%s__" % name, binary(name))


_define()


def solution(fd):
    """Serve the code under test until the worker closes the connection."""
    try:
        Solution(fd).serve()
    except (Gone, OSError):
        pass


def check(fd):
    """Run one check, tell its verdict, and end."""
    side = Check(fd)
    m = side.channel.receive()
    if m is None:
        return
    try:
        side.run(m)
        side.channel.send({"op": "done", "calls": side.calls})
        side.channel.receive()
    except (Gone, OSError):
        pass
