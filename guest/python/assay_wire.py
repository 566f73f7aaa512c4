"""The protocol between the two ends of a graded solution: their common part.

The ends are in separate sandboxes. assay_solution holds the code under test and answers calls. assay_check runs check
code in which the solution is a Proxy that sends every call to the other sandbox. Each end has a stream to the worker,
and there is one between them. All carry frames: four bytes of length, big-endian, and a JSON object with the key op.
internal/worker/grade/doc.go documents the frames and the encoding of values.

The solution's process can only send data, an exception, or the number of one of its objects. The receiver decides
their value. No message from it can run code at the other end.

Standard library only, for Python 3.8 and later.
"""

import base64
import builtins
import json
import os
import re
import sys

try:
    from harness import _repr
except ImportError:  # an image's own interpreter gets no harness
    _repr = None

MAX_FRAME = 8 << 20
MAX_NODES = 400_000
MAX_TOKENS = 4 * MAX_NODES  # tokens of a value in JSON: punctuation outside of strings
MAX_DEPTH = 150
MAX_INT = 1 << 20  # bits
MAX_TEXT = 2 << 10  # of a repr or a message
MAX_TRACE = 48 << 10  # of a traceback


class TooLarge(Exception):
    """A value that exceeds the limits."""


class NotData(TypeError):
    """A message contains an unexpected object that is not data."""


class Gone(BaseException):
    """The other end does not respond any more."""


# Frames


class Channel:
    def __init__(self, fd):
        self.fd = fd
        self.rest = b""  # read bytes of the next frames

    def send(self, frame):
        data = _dumps(frame).encode("ascii")
        if len(data) > MAX_FRAME:
            raise TooLarge("more than %d MiB" % (MAX_FRAME >> 20))
        data = len(data).to_bytes(4, "big") + data
        done = self.write(data)
        while done < len(data):
            done += self.write(memoryview(data)[done:])

    def receive(self):
        """Return the next frame, or None at the end."""
        data = self.rest
        while len(data) < 4:
            part = self.read(16 << 10)
            if not part:
                return None
            data += part
        size = 4 + int.from_bytes(data[:4], "big")
        if len(data) < size:
            data = self._whole(data, size)
            if data is None:
                return None
        self.rest = data[size:]
        return self.decode(data[4:size])

    def decode(self, data):
        return _loads(data.decode())

    def _whole(self, data, size):
        if size > MAX_FRAME + 4:
            raise ValueError("a frame of more than %d MiB" % (MAX_FRAME >> 20))
        parts, left = [data], size - len(data)
        while left > 0:
            part = self.read(min(left, 1 << 20))
            if not part:
                return None
            parts.append(part)
            left -= len(part)
        return b"".join(parts)

    def read(self, size):
        return _read(self.fd, size)

    def write(self, data):
        return _write(self.fd, data)


# A forked interpreter pays for each page that it writes to, and every access to an object is a write. So these are
# created once, with short look-ups.
_read, _write = os.read, os.write
_dumps, _loads = json.JSONEncoder(check_circular=False).encode, json.JSONDecoder().decode


_strings = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)


def crowded(data):
    """Report whether a frame would create more objects than any value has. It creates none itself."""
    if len(data) <= MAX_TOKENS:
        return False
    found = at = 0
    for text in _strings.finditer(data):
        start, end = text.span()
        found += 1 + _signs(data, at, start)
        at = end
        if found > MAX_TOKENS:
            return True
    return found + _signs(data, at, len(data)) > MAX_TOKENS


def _signs(data, start, end):
    if end - start == 1:
        return 1
    return sum(data.count(sign, start, end) for sign in (b",", b":", b"[", b"{"))


# Values


class Codec:
    """Encodes and decodes values; refer and resolve handle other objects.

    inner decodes the parts of an object: its fields, or the arguments of a standard type. leave names types whose
    values cannot be fields. Unless arrays is set, a numpy array is not data.
    """

    arrays = True

    def __init__(self, refer, resolve, inner=None, shared=None, leave=()):
        self.refer, self.resolve, self.inner, self.leave = refer, resolve, inner or self, leave
        self.shared = {} if shared is None else shared  # classes of the setup, by name: instances are sent by value

    def encode(self, value):
        self.begin()
        return self._encode(value, 0, set())

    def begin(self):
        """Reset the limits of a message."""
        self.left = MAX_NODES
        self.room = MAX_FRAME - (64 << 10)

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
        if kind is bytes:
            return self._bytes(value)
        if kind is complex:
            return {"$complex": [self._encode(v, depth, inside) for v in (value.real, value.imag)]}
        return self._compound(value, kind, depth, inside)

    def _bytes(self, value):
        self._spend(len(value) * 4 // 3)
        return {"$" + type(value).__name__: base64.b64encode(value).decode()}

    def _compound(self, value, kind, depth, inside):
        if id(value) in inside:
            return {"$other": [kind.__name__, "a %s that contains itself" % kind.__name__]}
        if depth > MAX_DEPTH:
            return {"$other": [type_name(kind), "nested deeper than %d" % MAX_DEPTH]}
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
        if kind is bytearray:
            return self._bytes(value)
        module, name = getattr(kind, "__module__", ""), kind.__name__
        if self.shared.get(name) is kind and is_record(kind):
            return {"$obj": [name, self._fields(value, kind, depth, inside)]}
        if module == "collections" and name in ("Counter", "OrderedDict", "defaultdict"):
            return self._dict(value, depth, inside)
        if module == "numpy" and hasattr(value, "item") and (name in ("str_", "bytes_") or not hasattr(value, "__len__")):
            item = value.item()  # a scalar
            if type(item) in (bool, int, float, complex, str, bytes):
                return self._encode(item, depth, inside)
        if self.arrays and is_array(kind) and ELEMENTS.fullmatch(value.dtype.str):
            self._spend(value.nbytes * 4 // 3)
            return {"$ndarray": [value.dtype.str, list(value.shape), base64.b64encode(value.tobytes()).decode()]}
        if kind.__bases__ == (tuple,) and type(getattr(kind, "_fields", None)) is tuple:
            return {"$tuple": [self._encode(v, depth, inside) for v in tuple.__iter__(value)]}
        if module == "builtins" and name in VIEWS:
            return {"$view": [name, [self._encode(v, depth, inside) for v in value]]}
        if module + "." + name in STANDARD:
            if name == "deque":
                args = [list(value)] if value.maxlen is None else [list(value), value.maxlen]
            elif name == "timezone":
                args = list(value.__getinitargs__())
            elif module == "datetime" and name != "timedelta":
                args = _time_parts(value, name)
            else:
                args = list(value.__reduce__()[1])
            return {"$std": [module + "." + name, [self._encode(v, depth, inside) for v in args]]}
        return self.refer(value)

    def _fields(self, value, kind, depth, inside):
        """Return the parts of an instance of a class of the setup: the name of an enum's member, or names and values."""
        if is_enum(kind):
            return value._name_ if type(value._name_) is str else []
        names = kind._fields if issubclass(kind, tuple) else field_names(value, kind)
        pairs = [(k, getattr(value, k) if issubclass(kind, tuple) else get_field(value, kind, k)) for k in names]
        return [[k, self._encode(v, depth, inside)] for k, v in pairs if type(v) not in self.leave]

    def _text(self, text):
        self._spend(len(text))
        if not text.isascii():
            try:
                text.encode()
            except UnicodeEncodeError:  # lone surrogates do not survive in all consumers of JSON
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
        return self._decode(j)

    def _decode(self, j):
        kind = type(j)
        if kind is list:
            return [self._decode(v) for v in j]
        if kind is not dict:
            return j
        if len(j) == 1:
            ((tag, v),) = j.items()
            if tag[:1] == "$":
                return self._tagged(tag[1:], v)
        return {k: self._decode(v) for k, v in j.items()}

    def decode_all(self, values):
        """Decode values by name."""
        return {k: self.decode(v) for k, v in values.items()}

    def _tagged(self, tag, v):
        if tag in ("tuple", "set", "frozenset"):
            return getattr(builtins, tag)([self._decode(x) for x in v])
        if tag == "dict":
            return {self._decode(k): self._decode(x) for k, x in v}
        if tag == "int":
            return int(v, 0)
        if tag == "float":
            return float(v)
        if tag == "complex":
            return complex(*[float(self._decode(x)) for x in v])
        if tag == "str":
            return base64.b64decode(v).decode("utf-8", "surrogatepass")
        if tag in ("bytes", "bytearray"):
            return getattr(builtins, tag)(base64.b64decode(v))
        if tag == "std" and type(v[0]) is str and v[0] in STANDARD:
            return self._standard(v[0], [self.inner._decode(x) for x in v[1]])
        if tag == "view" and v[0] in VIEWS:
            return _view(v[0], [self._decode(x) for x in v[1]])
        if tag == "ndarray":
            return _array(*v)
        if tag == "obj":
            return self._object(self.shared[v[0]], v[1])
        return self.resolve(tag, v)

    def _standard(self, name, args):
        for a in args:
            kind = type(a)
            if kind.__module__ + "." + kind.__name__ not in STANDARD[name] or kind is str and "e" in a.lower() and name[0] == "f":
                raise ValueError("not made like that")
        module, name = name.rsplit(".", 1)
        kind = getattr(__import__(module), name)
        if name == "defaultdict":
            return kind(None if args[0] is None else FACTORIES[args[0]], args[1])
        if module == "datetime" and len(args) == FOLDED.get(name):
            return kind(*args[:-1], fold=args[-1])
        return kind(*args)

    def _object(self, kind, fields):
        """Return an instance of a local class of the setup with fields from the other end, never methods."""
        if not is_record(kind):
            raise ValueError("a class that does not cross")
        if is_enum(kind):
            return kind.__members__[fields]
        fields = [(k, self.inner._decode(x)) for k, x in fields]
        if issubclass(kind, tuple):
            if tuple(k for k, _ in fields) != kind._fields:
                raise ValueError("not the fields of its class")
            return tuple.__new__(kind, [x for _, x in fields])
        value = object.__new__(kind)
        for k, x in fields:
            if type(k) is not str:
                raise ValueError("not a field")
            if callable(x) and not self._may_be_called(x):  # it would hide a method that the class lacks
                raise NotData("a %s whose %s can be called" % (kind.__name__, cut(k, 100)))
            if self._check_field(kind, k):
                set_field(value, kind, k, x)
        return value

    def _may_be_called(self, value):
        """Report whether a field may hold this callable object."""
        return False

    def _check_field(self, kind, name):
        """Check that a class allows such a field: it may hide only a default of the class."""
        for base in kind.__mro__:
            if name not in base.__dict__:
                continue
            usual = base.__dict__[name]
            if type(usual) is _Slot:
                return True
            if type(usual).__name__ == "cached_property" and type(usual).__module__ == "functools":
                return False  # created for each access
            if name[:2] != "__" and type(usual) in PLAIN:
                return True
            if self.shared.get(type(usual).__name__) is type(usual) and not callable(usual) and not hasattr(usual, "__get__"):
                return True
            raise NotData("a %s whose %s is not that of its class" % (kind.__name__, cut(name, 100)))
        return True


PLAIN = (type(None), bool, int, float, complex, str, bytes, bytearray, list, tuple, dict, set, frozenset)

# The standard types whose values are sent, and the types of their arguments.
STANDARD = {
    "fractions.Fraction": ("builtins.int", "builtins.str"),
    "decimal.Decimal": ("builtins.str",),
    "datetime.date": ("builtins.bytes", "builtins.int"),
    "datetime.time": ("builtins.bytes", "builtins.int", "builtins.NoneType", "datetime.timezone"),
    "datetime.datetime": ("builtins.bytes", "builtins.int", "builtins.NoneType", "datetime.timezone"),
    "datetime.timedelta": ("builtins.int",),
    "datetime.timezone": ("datetime.timedelta", "builtins.str"),
    "builtins.range": ("builtins.int",),
    "collections.deque": ("builtins.list", "builtins.int"),
    "collections.OrderedDict": ("builtins.dict",),
    "collections.Counter": ("builtins.dict",),
    "collections.defaultdict": ("builtins.dict", "builtins.str", "builtins.NoneType"),
}

# The default factories of an incoming defaultdict, by name.
FACTORIES = {f.__name__: f for f in (bool, int, float, str, bytes, list, tuple, set, dict)}

# The number of arguments of a time if the last one is its fold.
FOLDED = {"datetime": 9, "time": 6}

_DATE = ("year", "month", "day")
_TIME = ("hour", "minute", "second", "microsecond")
_PARTS = {"date": _DATE, "time": _TIME, "datetime": _DATE + _TIME}


def _time_parts(value, name):
    """Return the constructor arguments of a date or time, without default zone and fold."""
    args = [getattr(value, part) for part in _PARTS[name]]
    if name != "date" and (value.tzinfo is not None or value.fold):
        args.append(value.tzinfo)
        if value.fold:
            args.append(value.fold)
    return args

# Element types of arrays in numpy's notation: numbers, and text of one length.
ELEMENTS = re.compile(r"[<>|](b1|[iu][1248]|f[248]|c8|c16|[SU][0-9]{1,5})")


def is_array(kind):
    return kind.__name__ == "ndarray" and kind.__module__ == "numpy"


def _array(elements, shape, data):
    """Return an array of our own numpy with plain elements, so that it contains no code from the other end."""
    if type(elements) is not str or not ELEMENTS.fullmatch(elements) or not all(type(n) is int and 0 <= n for n in shape):
        raise ValueError("not an array")
    try:
        import numpy
    except ImportError:
        raise ValueError("this image has no numpy, which an array needs") from None

    data = base64.b64decode(data)
    if 0 in shape and not data:
        return numpy.zeros(shape, elements)
    # numpy itself never creates such values: a bool other than true and false, or invalid characters.
    if elements[1] == "b" and data.strip(b"\0\1"):
        raise ValueError("not the bytes of truth values")
    if elements[1] == "U" and len(data) and numpy.frombuffer(data, elements[0].replace("|", "=") + "u4").max() > 0x10FFFF:
        raise ValueError("not the bytes of text")
    return numpy.frombuffer(data, elements).reshape(shape).copy()


VIEWS = ("dict_keys", "dict_values", "dict_items")


def _view(name, items):
    if name == "dict_keys":
        return dict.fromkeys(items).keys()
    return dict(items).items() if name == "dict_items" else dict(enumerate(items)).values()


class _Slotted:
    __slots__ = ("slot",)


_Slot = type(_Slotted.slot)
_HEAP = 1 << 9  # flag of types made by a class statement


def is_record(kind):
    """Report whether instances of a class consist only of their fields, so that they are sent by value."""
    if is_enum(kind):
        return True
    return all(k.__flags__ & _HEAP or k is tuple and hasattr(kind, "_fields") for k in kind.__mro__[:-1])


def is_enum(kind):
    enum = sys.modules.get("enum")
    return enum is not None and isinstance(kind, enum.EnumMeta)


def field_names(value, kind):
    names = list(getattr(value, "__dict__", ()))
    for base in kind.__mro__:
        names += [k for k, v in base.__dict__.items() if type(v) is _Slot and k not in names]
    return [k for k in names if type(k) is str and _has_field(value, kind, k)]


def _has_field(value, kind, name):
    try:
        get_field(value, kind, name)
        return True
    except AttributeError:  # an empty slot
        return False


def _slot(kind, name):
    for base in kind.__mro__:
        if type(base.__dict__.get(name)) is _Slot:
            return base.__dict__[name]
    return None


def get_field(value, kind, name):
    slot = _slot(kind, name)
    return slot.__get__(value) if slot else value.__dict__[name]


def set_field(value, kind, name, x):
    slot = _slot(kind, name)
    if slot:
        slot.__set__(value, x)
    else:
        value.__dict__[name] = x


def delete_field(value, kind, name):
    slot = _slot(kind, name)
    if slot:
        slot.__delete__(value)
    else:
        del value.__dict__[name]


def type_name(kind):
    try:
        return cut(kind.__qualname__, 200)
    except BaseException:
        return "?"


def article(name):
    name = cut(name, 200) or "?"
    return ("an " if name[0] in "aeiouAEIOU" else "a ") + name


def cut(text, limit=MAX_TEXT):
    if type(text) is not str:
        text = str.__str__(text) if isinstance(text, str) else "?"
    if len(text) > limit:
        text = text[:limit] + "…"
    return text.encode("utf-8", "backslashreplace").decode()


def show(value, limit=MAX_TEXT):
    """Return a repr of limited length. It never raises."""
    if _repr:
        return _repr(value, limit)
    try:
        return cut(repr(value), limit)
    except BaseException:
        return "<repr failed>"


def shared_classes(names, module):
    return {k: v for k, v in names.items() if isinstance(v, type) and v.__module__ == module and v.__name__ == k}
