"""Preserve the identity of objects between a check and its solution.

The values of a call are encoded as trees, as in assay_wire, if possible. If an object occurs twice, contains itself,
or is nested deeply, all values of the message are encoded as a flat table instead:

    {"$graph": [entries, roots]}   an entry is a value whose parts are {"$i": index of an entry}

Both ends number the objects that a test passes, in the order of their occurrence:

    {"$n": [number, value]}        an object that was sent before, with its current content
    {"$at": number}                an unchanged object of the call that is being answered

An answer has the changed objects of its call: "changed": [[number, value], …]. So the caller's own objects receive
the changes, and a returned argument is the caller's own object. An answer can only change objects of the open call.

Standard library only, for Python 3.8 and later.
"""

import base64
import builtins

from assay_content import content_of, equal, replace, unchanged
from assay_wire import MAX_NODES, Codec, is_array, is_enum, is_record, type_name

MAX_NEST = 60  # levels of a tree; deeper values become tables
KEEP = 200_000  # values that both ends keep for later calls of a test

# The tags of numbered objects. Lists and dicts are numbered, too.
NUMBERED = frozenset("$tuple $set $dict $bytearray $ndarray $map $deque $array $io $ns $named".split())
MAPS = ("Counter", "OrderedDict", "defaultdict")
FACTORIES = ("list", "dict", "set", "int", "float", "str", "bool", "tuple", "bytes", "frozenset")
PATHS = ("PosixPath", "PurePosixPath", "PureWindowsPath")


class Tangled(Exception):
    """The value is not a tree, or too deep for one."""


def numbered(j):
    """Report whether an encoded object has a number."""
    if type(j) is not dict:
        return type(j) is list
    if len(j) != 1:
        return True
    for tag in j:
        return tag[:1] != "$" or tag in NUMBERED or tag == "$obj" and type(j[tag][1]) is list
    return False


class Table:
    """The numbered objects."""

    def __init__(self):
        self.reset()

    def reset(self):
        self.nodes, self.ids, self.cost = [], {}, 0
        self.values = None  # entries of the graph being decoded
        self.scopes = []  # of the open calls
        self.scope = None  # of the call being encoded or decoded
        self.add = self._add

    def _add(self, value):
        self.ids[id(value)] = len(self.nodes)
        self.nodes.append(value)

    def ignore(self, value):
        pass

    def cut(self, length):
        for value in self.nodes[length:]:
            if self.ids.get(id(value), -1) >= length:
                del self.ids[id(value)]
        del self.nodes[length:]

    def in_scope(self, n):
        return any(n in scope for scope in self.scopes)


class Scope:
    """The objects of one call, by number."""

    def __init__(self, start):
        self.start = self.end = start
        self.known = set()  # objects that already had a number
        self.before = []  # number, object and content at the start of the call

    def __contains__(self, n):
        return self.start <= n < self.end or n in self.known

    def snapshot(self, table):
        """Record the content of each object."""
        nodes, before = table.nodes, self.before
        for n in [*self.known, *range(self.start, self.end)]:
            value = nodes[n]
            content = value[:] if type(value) is list else content_of(value)
            if content is not None:
                before.append((n, value, content))

    def changed(self):
        """Return numbers and objects of changed content."""
        return [(n, value) for n, value, content in self.before if not unchanged(value, content)]


class GraphCodec(Codec):
    """A Codec that numbers its values in a table. The other end keeps an equal table.

    trusting means that the other end decides the content of objects that were sent before.
    """

    def __init__(self, refer, resolve, table, inner=None, shared=None, leave=(), trusting=False):
        Codec.__init__(self, refer, resolve, inner, shared, leave)
        self.table, self.trusting = table, trusting
        self.queue = None  # of the graph being encoded

    # Messages

    def pack(self, roots, contents=()):
        """Encode values together as a list or a graph. contents are numbers and objects whose content is included."""
        table, start = self.table, len(self.table.nodes)
        Codec.begin(self)
        try:
            try:
                seen = set()
                out = [self._encode(v, 0, seen) for v in roots]
                changed = [[n, self._container(v, type(v), 1, seen)] for n, v in contents]
                return (out, changed)
            except Tangled:
                table.cut(start)
                Codec.begin(self)
                return (self._graph(roots, contents), [])
        except BaseException:
            table.cut(start)
            raise
        finally:
            self.queue = None
            table.cost += MAX_NODES - self.left

    def unpack(self, packed):
        """Decode the output of pack into a list of values."""
        start = len(self.table.nodes)
        try:
            if type(packed) is dict:
                return self._decode_graph(*packed["$graph"])
            return [self._decode(j) for j in packed]
        except BaseException:
            self.table.cut(start)
            raise

    def encode(self, value):
        """Encode a value outside of a call. It gets no number."""
        out, _ = self.alone(self.pack, [value])
        return out if type(out) is dict else out[0]

    def decode(self, j):
        packed = j if type(j) is dict and len(j) == 1 and "$graph" in j else [j]
        return self.alone(self.unpack, packed)[0]

    def alone(self, f, *args):
        table = self.table
        self.table = self.inner.table = Table()
        try:
            return f(*args)
        finally:
            self.table = self.inner.table = table

    # Encoding

    def _compound(self, value, kind, depth, seen):
        n = self.table.ids.get(id(value))
        if n is not None and self.table.scope is None and self.table.scopes and n in self.table.scopes[-1]:
            if self.queue is None or n not in self.sent:
                return {"$at": n}
        if self.queue is not None:
            return self._enqueue(value)
        if kind is not tuple and kind is not frozenset:
            if id(value) in seen and self._has_identity(value, kind):
                raise Tangled()
            seen.add(id(value))
        if depth > MAX_NEST:
            raise Tangled()
        j = self._container(value, kind, depth + 1, seen)
        if n is not None:
            return self._again(n, j)
        if numbered(j):
            self.table.add(value)
        return j

    def _has_identity(self, value, kind):
        """Report whether the identity of the object is significant."""
        if kind in (list, dict, set, bytearray) or isinstance(value, dict):
            return True
        if self.shared.get(kind.__name__) is kind and is_record(kind):
            return not is_enum(kind)
        return kind.__module__ in ("collections", "array", "_io", "types") or is_array(kind)

    def _again(self, n, j):
        if self.table.scope is not None:
            self.table.scope.known.add(n)
        return {"$n": [n, j]}

    def _graph(self, roots, contents):
        self.queue, self.places, self.sent = [], {}, {n for n, _ in contents}
        out = [self._encode(v, 0, None) for v in roots]
        for _, value in contents:
            self._enqueue(value)
        entries = []
        for value in self.queue:  # grows during the loop
            j = self._container(value, type(value), 0, None)
            n = self.table.ids.get(id(value))
            entries.append(j if n is None else self._again(n, j))
        for value, j in zip(self.queue, entries):
            if numbered(j) and not (type(j) is dict and "$n" in j):
                self.table.add(value)
        return {"$graph": [entries, out]}

    def _enqueue(self, value):
        place = self.places.get(id(value))
        if place is None:
            place = self.places[id(value)] = len(self.queue)
            self.queue.append(value)
        return {"$i": place}

    def _container(self, value, kind, depth, seen):
        if kind in (list, tuple, dict, set):
            return Codec._container(self, value, kind, depth, seen)
        module, name = getattr(kind, "__module__", ""), kind.__name__
        encode = self._encode
        if isinstance(value, type):
            if getattr(builtins, value.__name__, None) is value or self.shared.get(value.__name__) is value:
                return {"$type": value.__name__}
        elif module == "collections" and name in MAPS and self.shared.get(name) is not kind:
            factory = getattr(value, "default_factory", None)
            pairs = [[encode(k, depth, seen), encode(v, depth, seen)] for k, v in value.items()]
            return {"$map": [name, pairs, None if factory is None else self._factory(factory)]}
        elif module == "collections" and name == "deque":
            return {"$deque": [[encode(v, depth, seen) for v in value], value.maxlen]}
        elif module == "array" and name == "array":
            return {"$array": [value.typecode, base64.b64encode(value.tobytes()).decode()]}
        elif module == "_io" and name in ("StringIO", "BytesIO"):
            if value.closed:
                return {"$io": [name, None, 0]}
            return {"$io": [name, encode(value.getvalue(), depth, seen), value.tell()]}
        elif module == "types" and name == "SimpleNamespace":
            return {"$ns": [[k, encode(v, depth, seen)] for k, v in vars(value).items() if type(v) not in self.leave]}
        elif module in ("pathlib", "pathlib._local") and name in PATHS:
            return {"$path": [name, str(value)]}
        elif module == "uuid" and name == "UUID":
            return {"$uuid": str(value)}
        elif module == "re" and name == "Pattern" and not self.trusting:
            return {"$pattern": [encode(value.pattern, depth, seen), value.flags]}
        elif kind.__bases__ == (tuple,) and type(getattr(kind, "_fields", None)) is tuple and self.shared.get(name) is not kind:
            return {"$named": [type_name(kind), list(kind._fields), [encode(v, depth, seen) for v in tuple.__iter__(value)]]}
        return Codec._container(self, value, kind, depth, seen)

    def _factory(self, factory):
        if type(factory) is type and factory.__name__ in FACTORIES and factory.__module__ == "builtins":
            return {"$type": factory.__name__}
        return None if self.trusting else self.refer(factory)

    # Decoding

    def _decode(self, j):
        kind = type(j)
        if kind is list:
            value = [self._decode(v) for v in j]
            self.table.add(value)
            return value
        if kind is not dict:
            return j
        if len(j) == 1:
            for tag in j:
                if tag[:1] == "$":
                    value = self._tagged(tag[1:], j[tag])
                    if tag in NUMBERED or tag == "$obj" and type(j[tag][1]) is list:
                        self.table.add(value)
                    return value
        value = {k: self._decode(v) for k, v in j.items()}
        self.table.add(value)
        return value

    def _tagged(self, tag, v):
        decode = self._decode
        if tag == "i" and self.table.values is not None:
            return self._entry(v)
        if tag == "at":
            return self._object_at(v)
        if tag == "n":
            return self._known(*v)
        if tag == "type" and type(v) is str:
            return self._type(v)
        if tag == "map" and v[0] in MAPS:
            return self._map(v[0], [(decode(k), decode(x)) for k, x in v[1]], v[2])
        if tag == "deque":
            import collections

            return collections.deque([decode(x) for x in v[0]], v[1])
        if tag == "array":
            import array

            made = array.array(v[0])
            made.frombytes(base64.b64decode(v[1]))
            return made
        if tag == "io":
            return self._file(v[0], None if v[1] is None else decode(v[1]), v[2])
        if tag == "ns":
            import types

            return types.SimpleNamespace(**{k: self.inner._decode(x) for k, x in v})
        if tag == "path" and v[0] in PATHS:
            import pathlib

            return getattr(pathlib, v[0])(v[1])
        if tag == "uuid":
            import uuid

            return uuid.UUID(v)
        if tag == "pattern" and self.trusting:
            import re

            return re.compile(decode(v[0]), v[1])
        if tag == "named":
            return self._named(v[0], tuple(v[1]))(*[decode(x) for x in v[2]])
        return Codec._tagged(self, tag, v)

    def _entry(self, place):
        value = self.table.values[place]
        if value is _PENDING:
            raise ValueError("an entry that contains itself")
        return value

    def _object_at(self, n):
        if type(n) is not int or not 0 <= n < len(self.table.nodes) or not self.table.in_scope(n):
            raise ValueError("no object of this call")
        return self.table.nodes[n]

    def _may_be_called(self, value):
        return self.trusting or self.table.in_scope(self.table.ids.get(id(value), -1))

    def _known(self, n, j):
        """Return an object that was sent before, with its new content."""
        if self.table.values is not None:
            raise ValueError("an object within a graph")
        old = self._numbered(n)
        new = self._decode(j)
        if numbered(j):
            self.table.cut(len(self.table.nodes) - 1)
        if self.trusting or self.table.in_scope(n):
            if self.table.scope is not None:
                self.table.scope.known.add(n)
            replace(old, new)
            return old
        return old if equal(old, new) else new

    def _numbered(self, n):
        if type(n) is not int or not 0 <= n < len(self.table.nodes):
            raise ValueError("no object")
        return self.table.nodes[n]

    def _type(self, name):
        if name in self.shared:
            return self.shared[name]
        found = getattr(builtins, name)
        if not isinstance(found, type):
            raise ValueError("not a type")
        return found

    def _map(self, name, pairs, factory):
        import collections

        if name != "defaultdict":
            made = getattr(collections, name)()
        elif self.trusting:
            made = collections.defaultdict(None if factory is None else self._decode(factory))
        else:
            named = type(factory) is dict and factory.get("$type")
            made = collections.defaultdict(getattr(builtins, named) if named in FACTORIES else None)
        for k, v in pairs:
            made[k] = v
        return made

    def _file(self, name, content, position):
        import io

        if name not in ("StringIO", "BytesIO"):
            raise ValueError("no file")
        made = io.StringIO(newline="") if name == "StringIO" else io.BytesIO()
        if content is None:
            made.close()
        else:
            made.write(content)
            made.seek(position)
        return made

    def _named(self, name, fields):
        import collections

        made = _named_tuples.get((name, fields))
        if made is None:
            made = _named_tuples[name, fields] = collections.namedtuple(name.rpartition(".")[2], fields)
        return made

    def _decode_graph(self, entries, roots):
        table = self.table
        codec = self
        if self.inner is not self and any(type(j) is dict and ("$obj" in j or "$ns" in j or "$n" in j) for j in entries):
            codec = self.inner  # the parts of an object are data
        numbers = [j["$n"][0] if type(j) is dict and len(j) == 1 and "$n" in j else None for j in entries]
        plain = [j if n is None else j["$n"][1] for j, n in zip(entries, numbers)]
        add, table.add = table.add, table.ignore
        table.values = values = [_PENDING] * len(plain)
        try:
            filled = []
            for k, j in enumerate(plain):
                values[k] = codec._shell(j)
                n = numbers[k]
                if n is not None:
                    old = self._numbered(n)
                    if self.trusting or table.in_scope(n):
                        if table.scope is not None:
                            table.scope.known.add(n)
                        if values[k] is _PENDING:
                            if not isinstance(old, tuple):
                                raise ValueError("another type")
                        elif type(values[k]) is not type(old):
                            raise ValueError("another type")
                        values[k] = old
                if values[k] is not _PENDING and not isinstance(values[k], tuple):
                    filled.append(k)
            for k in range(len(plain)):
                codec._build(k, plain)
            fresh = []
            for k in sorted(filled, key=lambda k: _order(values[k])):
                if isinstance(values[k], (dict, set)):
                    replace(values[k], codec._decode(plain[k]))  # its keys may have to be filled first
                else:
                    fresh.append((values[k], codec._decode(plain[k])))
                    replace(*fresh[-1])
            out = [codec._decode(j) for j in roots]
        finally:
            table.add, found, table.values = add, table.values, None
        for j, n, value in zip(plain, numbers, found):
            if n is None and numbered(j):
                table.add(value)
        return out

    def _shell(self, j):
        """Return an object without its content, or _PENDING if it must be built from its parts."""
        if type(j) is list:
            return []
        if type(j) is not dict:
            return _PENDING
        tag = next(iter(j)) if len(j) == 1 else ""
        if tag[:1] != "$" or tag == "$dict":
            return {}
        if tag == "$set":
            return set()
        v = j[tag]
        if tag == "$obj" and type(v[1]) is list:
            kind = self.shared[v[0]]
            if is_record(kind) and not is_enum(kind) and not issubclass(kind, tuple):
                return object.__new__(kind)
        elif tag == "$map" and v[0] in MAPS:
            return self._map(v[0], [], v[2])
        elif tag == "$deque":
            return self._tagged("deque", [[], v[1]])
        elif tag == "$ns":
            return self._tagged("ns", [])
        return _PENDING

    def _build(self, k, plain):
        """Build entry k after its parts. Each entry is built once."""
        values, stack, waiting = self.table.values, [k], set()
        while stack:
            k = stack[-1]
            if values[k] is not _PENDING:
                stack.pop()
                continue
            parts = [m for m in _parts(plain[k]) if values[m] is _PENDING] if k not in waiting else []
            if parts:
                waiting.add(k)
                stack += parts
                continue
            values[k] = self._decode(plain[k])
            stack.pop()


def _order(value):
    """Return the sort key: objects of classes first, because their hashes may need their fields; containers with
    hashed members last.
    """
    return 2 if isinstance(value, (dict, set)) else 1 if isinstance(value, list) else 0


def _parts(j):
    """Return the entries that an entry refers to."""
    if type(j) is list:
        return [m for v in j if type(v) in (list, dict) for m in _parts(v)]
    if len(j) == 1 and type(j.get("$i")) is int:
        return [j["$i"]]
    return [m for v in j.values() if type(v) in (list, dict) for m in _parts(v)]


class _Pending:
    pass


_PENDING = _Pending()
_named_tuples = {}


# Calls


class Calls:
    """Encodes and decodes calls and answers. Both ends have one."""

    def __init__(self, codec):
        self.codec, self.table = codec, codec.table

    def call(self, args, kwargs, fresh=False):
        """Return the fields of a call. The scope is open until close."""
        table, codec = self.table, self.codec
        if fresh and not table.scopes and table.cost > KEEP:
            table.reset()
        start = len(table.nodes)
        table.scope = scope = Scope(start)
        try:
            packed, _ = codec.pack([*args, *kwargs.values()])
        finally:
            table.scope = None
        scope.end = len(table.nodes)
        table.scopes.append(scope)
        if type(packed) is dict:
            return {"at": start, "graph": packed, "args": len(args), "kwargs": list(kwargs)}
        n = len(args)
        return {"at": start, "args": packed[:n], "kwargs": dict(zip(kwargs, packed[n:]))}

    def called(self, m):
        """Return the arguments of a call. The scope is open until close."""
        table, codec = self.table, self.codec
        at = m["at"]
        if not at and not table.scopes:
            table.reset()
        if type(at) is not int or at > len(table.nodes):
            raise ValueError("objects that are not here")
        table.cut(at)
        table.scope = scope = Scope(at)
        try:
            if "graph" in m:
                values, names = codec.unpack(m["graph"]), m["kwargs"]
            else:
                names = list(m["kwargs"])
                values = codec.unpack([*m["args"], *m["kwargs"].values()])
        finally:
            table.scope = None
        scope.end = len(table.nodes)
        table.scopes.append(scope)
        scope.snapshot(table)
        n = len(values) - len(names)
        return values[:n], dict(zip(names, values[n:]))

    def answer(self, *value):
        """Return the fields of the answer to the last decoded call; no value if it raised."""
        out = {}
        packed, changed = self.codec.pack(value, self.table.scopes[-1].changed())
        if type(packed) is dict:
            out["graph"] = packed
        elif value:
            out["value"] = packed[0]
        if changed:
            out["changed"] = changed
        return out

    def answered(self, m, codec=None):
        """Apply the changes in an answer, and return its values: none or one."""
        codec, table = codec or self.codec, self.table
        if "graph" in m:
            return codec.unpack(m["graph"])
        start = len(table.nodes)
        values = codec.unpack([m["value"]] if "value" in m else [])
        try:
            news = []
            for n, j in m.get("changed") or ():
                old = codec._object_at(n)
                new = codec._decode(j)
                table.cut(len(table.nodes) - 1)
                if type(old) is not type(new):
                    raise ValueError("another type")
                news.append((old, new))
        except BaseException as e:
            table.cut(start)
            e.of_argument = True
            raise
        for old, new in news:
            replace(old, new)
        return values

    def close(self):
        """Close the scope of the last call."""
        if self.table.scopes:
            self.table.scopes.pop()
