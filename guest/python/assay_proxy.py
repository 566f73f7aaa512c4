"""What a check has of the solution: a Proxy of each object that cannot be sent.

All that is done with one goes through its side, an assay_check.Check: value(frame)
asks the solution and returns what it answers, call(ref, args, kwargs) calls an
object, codec encodes values.

Standard library only, for Python 3.8 and later.
"""


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
