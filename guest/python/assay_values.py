"""Represent values: as text of limited length, as JSON if that is complete, and as tables and pictures. Cut the texts
of a snippet.

A part of the module harness: the worker has both as one file, see python.go. The values and their methods belong to
the snippet, so these methods may do anything.

Standard library only, for Python 3.8 and later.
"""

import os
import sys

MAX_VALUE = 64 << 10  # bytes of a value's repr or JSON
MAX_REPR = 2 << 10  # bytes of a variable's repr
MAX_VARIABLES = 200
MAX_DEPTH = 40  # of containers in a repr or JSON



def _value(value, looker):
    """Return type, repr and JSON of a value. The looker may add the repr later."""
    out = {"type": _type(value), "repr": ""}
    looker.repr(value, MAX_VALUE, out)
    text = _guard(_json, value)
    if text is not None and len(text) <= MAX_VALUE:
        out["json"] = _Raw(value)
    elif text is None:
        tagged = _guard(looker.in_place, lambda: _tagged(value))
        if tagged is not None and len(_dumps(tagged)) <= MAX_VALUE:
            out["tagged"] = tagged
    return out


class _Raw:
    """Marks a value that is already JSON."""

    def __init__(self, value):
        self.value = value


def _json(value):
    """Return value as JSON text, or None if that would be incomplete."""
    if not _faithful(value, 0, [10000]):
        return None
    return _dumps(value)


def _faithful(value, depth, budget, deepest=MAX_DEPTH, long=False):
    """Report whether JSON represents value completely. budget counts values, and also characters if texts may be
    long.
    """
    budget[0] -= 1
    if depth > deepest or budget[0] < 0:
        return False
    kind = type(value)
    if value is None or kind is bool:
        return True
    if kind is int:
        return value.bit_length() <= 4096
    if kind is float:
        return value - value == 0  # neither infinite nor nan
    if kind is str:
        budget[0] -= long and len(value)
        return budget[0] >= 0 and (long or len(value) <= MAX_VALUE) and _encodable(value)
    if kind is list:
        return all(_faithful(v, depth + 1, budget, deepest, long) for v in value)
    if kind is dict:
        return all(
            type(k) is str and _encodable(k) and _faithful(v, depth + 1, budget, deepest, long) for k, v in value.items()
        )
    return False


# Values without a JSON representation, in the tagged encoding: docs/grading.md has the tags.


def _tagged(value, budget=10000, levels=90):
    """Return value as JSON with tags. It raises if value exceeds the limits of parts or levels, or has parts without
    a tag.
    """
    return _Tagger(budget).any(value, levels)


class _Tagger:
    def __init__(self, budget):
        self.budget = budget  # of values, and of characters by the hundred
        self.open = set()

    def spend(self, n):
        self.budget -= n
        if self.budget < 0:
            raise ValueError("too large")

    def any(self, value, levels):
        kind = type(value)
        self.spend(1)
        if value is None or kind is bool:
            return value
        if kind is int:
            self.spend(value.bit_length() // 1000)
            return value if value.bit_length() <= 4096 else {"$int": hex(value)}
        if kind is float:
            return value if value - value == 0 else {"$float": repr(value)}
        if kind is str:
            self.spend(len(value) // 100)
            return value if _encodable(value) else {"$str": self.data(value.encode("utf-8", "surrogatepass"))}
        if kind is bytes or kind is bytearray:
            return {"$" + kind.__name__: self.data(value)}
        if kind is complex:
            return {"$complex": [self.any(value.real, 0), self.any(value.imag, 0)]}
        if levels <= 0 or id(value) in self.open:
            raise ValueError("too deep")
        self.open.add(id(value))
        try:
            return self.container(value, kind, levels)
        finally:
            self.open.discard(id(value))

    def container(self, value, kind, levels):
        module, name = kind.__module__, kind.__name__
        if kind is list:
            return [self.any(v, levels - 1) for v in value]
        if kind is dict:
            return self.dict(value, levels)
        if kind in (tuple, set, frozenset) or kind.__bases__ == (tuple,) and type(getattr(kind, "_fields", None)) is tuple:
            return {"$" + (name if kind in (set, frozenset) else "tuple"): [self.any(v, levels - 2) for v in value]}
        if module == "collections" and name in ("OrderedDict", "Counter", "defaultdict"):
            args = [self.dict(value, levels - 3)]
            if name == "defaultdict":
                factory = value.default_factory
                if factory not in (None, bool, int, float, str, bytes, list, tuple, set, dict):
                    raise ValueError("a factory without a name")
                args.insert(0, factory and factory.__name__)
        elif module == "collections" and name == "deque":
            args = [[self.any(v, levels - 4) for v in value]] + ([] if value.maxlen is None else [value.maxlen])
        elif module == "numpy" and name == "ndarray" and value.dtype.kind in "biufcSU" and value.dtype.char not in "gG":
            return {"$ndarray": [value.dtype.str, list(value.shape), self.data(value.tobytes())]}
        elif module == "numpy" and value.dtype.kind in "biufcSU" and type(value.item()) is not kind:
            return self.any(value.item(), levels)
        else:
            args = [self.any(v, levels - 3) for v in self.parts(value, module, name)]
        return {"$std": [module + "." + name, args]}

    def parts(self, value, module, name):
        """Return the constructor arguments of an object of a standard type."""
        if module == "datetime":
            if name == "timedelta":
                return value.days, value.seconds, value.microseconds
            if name == "timezone":
                return value.__getinitargs__()
            date = [value.year, value.month, value.day] if name[:4] == "date" else []
            time = [value.hour, value.minute, value.second, value.microsecond] if name[-4:] == "time" else []
            if not time or value.tzinfo is None and not value.fold:
                return date + time
            return date + time + [value.tzinfo] + ([value.fold] if value.fold else [])
        if module + "." + name == "builtins.range":
            return value.start, value.stop, value.step
        if module + "." + name == "fractions.Fraction":
            return value.numerator, value.denominator
        if module + "." + name == "decimal.Decimal":
            return (str(value),)
        raise TypeError("no tag")

    def dict(self, value, levels):
        if all(type(k) is str and _encodable(k) for k in value) and not (len(value) == 1 and next(iter(value))[:1] == "$"):
            return {k: self.any(v, levels - 1) for k, v in value.items()}
        return {"$dict": [[self.any(k, levels - 3), self.any(v, levels - 3)] for k, v in value.items()]}

    def data(self, value):
        import binascii

        self.spend(len(value) // 75)
        return binascii.b2a_base64(value, newline=False).decode()


def _encodable(text):
    """Report whether text is valid: lone surrogates and NUL do not survive in all consumers of JSON."""
    if "\0" in text:
        return False
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _variables(names, before, looker):
    """Return the names that the snippet created or changed. The looker may add their reprs later."""
    out = {}
    for name, value in sorted(((k, v) for k, v in list(names.items()) if type(k) is str and k[:1] != "_"), key=_first):
        if issubclass(type(value), type(sys)):
            continue
        if name in before and before[name] == _fingerprint(value):
            continue
        if len(out) >= MAX_VARIABLES:
            break
        shown = out[_cut(name, 200)] = {"type": _type(value), "repr": ""}
        looker.repr(value, MAX_REPR, shown)
    return out


def _first(pair):
    return pair[0]


def _fingerprint(value):
    """Return a value that changes with the variable. It calls no method of the snippet."""
    kind = type(value)
    return (id(value), _qualname(kind), _repr(value, 1 << 20, _identity) if kind is list or kind is dict else None)


def _type(value):
    name = _qualname(type(value))
    return _cut(name, 256) if isinstance(name, str) else "?"


_qualname = type.__dict__["__qualname__"].__get__  # bypasses the snippet's metaclass


def _repr(value, limit, leaf=repr):
    """Return repr(value) of about limit bytes. It raises only _Unknown and _Late."""
    out = []
    try:
        whole = _write_repr(value, out, limit, 0, set(), leaf)
        text = "".join(out)
    except (_Unknown, _Late):
        raise
    except BaseException as e:
        return "<repr failed: %s>" % _type(e)
    if not whole or len(text) > limit:
        text = text[:limit] + "…"
    return _cut(text, limit)


def _write_repr(value, out, budget, depth, open_ids, leaf):
    """Append repr(value) to out until budget is used up. leaf is repr for other types than containers.

    It returns whether all of it fitted. Containers are traversed here, so that a list of a million items costs only
    its visible part.
    """
    kind = type(value)
    pairs = {list: "[]", tuple: "()", set: "{}", frozenset: ("frozenset({", "})"), dict: "{}"}.get(kind)
    if pairs is None or not value or depth > MAX_DEPTH or id(value) in open_ids:
        if kind in (str, bytes, bytearray) and len(value) > budget:
            out.append(repr(value[:budget]))
            return False
        if kind is int and value.bit_length() > 4 * budget:
            out.append("<int of %d bits>" % value.bit_length())
            return True
        if pairs is not None and value and depth > MAX_DEPTH:
            out.append("…")
            return False
        if id(value) in open_ids:
            out.append({list: "[...]", dict: "{...}"}.get(kind, "(...)"))
            return True
        text = leaf(value)
        if not isinstance(text, str):
            raise TypeError("repr")
        out.append(text)
        return True
    open_ids.add(id(value))
    out.append(pairs[0])
    used = 0
    first = True
    whole = True
    for item in value.items() if kind is dict else value:
        start = len(out)
        if not first:
            out.append(", ")
        first = False
        if kind is dict:
            whole = _write_repr(item[0], out, budget - used, depth + 1, open_ids, leaf)
            if whole:
                out.append(": ")
                whole = _write_repr(item[1], out, budget - used, depth + 1, open_ids, leaf)
        else:
            whole = _write_repr(item, out, budget - used, depth + 1, open_ids, leaf)
        used += sum(len(x) for x in out[start:])
        if not whole or used > budget:
            whole = False
            break
    open_ids.discard(id(value))
    if whole:
        out.append(",)" if kind is tuple and len(value) == 1 else pairs[1])
    return whole


# Values whose methods belong to the snippet: see assay_look.py


class _Unknown(BaseException):
    """The repr may call methods of the snippet."""


class _Late(BaseException):
    """The time limit of an inspection has passed."""


# Types whose repr calls no other repr; containers are leaves only if empty.
_SIMPLE = frozenset(
    [type(None), bool, int, float, complex, str, bytes, bytearray, range, type, list, tuple, set, frozenset, dict]
    + [type(lambda: None), type(len), type(...), type(NotImplemented)]
)


_HARMLESS = object.__repr__, type.__repr__


def _slot(kind, name):
    """Return the definition of name in a class or its bases, without a call of its metaclass."""
    for base in type.__dict__["__mro__"].__get__(kind):
        found = type.__dict__["__dict__"].__get__(base).get(name)
        if found is not None:
            return found
    return None


def _plain_leaf(value):
    """Return repr(value) if that calls no code of the snippet; otherwise raise _Unknown."""
    kind = type(value)
    if kind in _SIMPLE or _slot(kind, "__repr__") in _HARMLESS:
        return repr(value)
    raise _Unknown


def _identity(value):
    return repr(value) if type(value) in _SIMPLE else object.__repr__(value)


# Text


def _guard(f, *args):
    """Return f(*args), or None if it raises, because the snippet's own methods may do anything."""
    try:
        return f(*args)
    except BaseException:
        return None


def _cut(text, limit):
    """Return text as plain str of at most limit UTF-8 bytes."""
    if type(text) is not str:
        text = str.__str__(text) if isinstance(text, str) else "?"
    data = text[: limit + 1].encode("utf-8", "backslashreplace")
    if len(data) > limit:
        return data[: max(limit - 3, 0)].decode("utf-8", "ignore") + "…"
    return data.decode("utf-8")


def _cut_middle(text, limit):
    if len(text) <= limit // 4:
        return _cut(text, limit)
    half = limit // 8
    if len(text) <= 2 * half:
        return _cut(text, limit)
    return _cut(text[:half], limit // 2) + "\n  … cut …\n" + _cut(text[-half:], limit // 2)


# JSON

# Importing json takes as long as starting the interpreter. Its C implementation is available at once in CPython.


def _loads(text):
    try:
        from _json import make_scanner
    except ImportError:
        import json

        return json.loads(text)

    class Context:
        strict = True
        object_hook = object_pairs_hook = None
        parse_float, parse_int, parse_constant = float, int, float
        memo = {}

    return make_scanner(Context)(text, 0)[0]


def _dumps(value):
    try:
        from _json import encode_basestring_ascii, make_encoder
    except ImportError:
        import json

        return json.dumps(value, default=_raw, allow_nan=False)
    encode = make_encoder({}, _raw, encode_basestring_ascii, None, ": ", ", ", False, False, False)
    return "".join(encode(value, 0))


def _raw(value):
    return value.value if isinstance(value, _Raw) else None
