"""References to the solution's objects in a check, each of a kind with fixed operations.

A kind is a class that has exactly its methods. So this file lists all possible operations, independent of the
solution's claims. Any solution may return a Function, Manager or Iterator; these are never described or compared.
Object, Class and Record are for checks of a class; assay_check selects among them.

All operations use the reference's side, an assay_check.Check. value(frame) sends a request to the solution and
returns its response. call(ref, args, kwargs) calls an object. codec encodes values.

Standard library only, for Python 3.8 and later.
"""

import collections.abc


class Reference:
    """An object in the solution's process. It equals only itself."""

    __slots__ = ("_assay_side", "_assay_ref", "_assay_name")

    def __init__(self, side, ref, name):
        for k, v in zip(Reference.__slots__, (side, ref, name)):
            object.__setattr__(self, k, v)

    def __eq__(self, other):
        return isinstance(other, Reference) and self._assay_ref == other._assay_ref or NotImplemented

    def __hash__(self):
        return hash(self._assay_ref)

    def __setattr__(self, name, value):
        raise AttributeError("%r has no attribute %r to set" % (self, name))

    def __delattr__(self, name):
        raise AttributeError("%r has no attribute %r to delete" % (self, name))

    def __repr__(self):
        return "<%s of the solution>" % self._assay_name

    def __copy__(self):
        return self

    def __deepcopy__(self, memo):
        return self

    def __reduce_ex__(self, protocol):
        raise TypeError("%r cannot be pickled" % self)


class Function(Reference):
    """A callable."""

    __slots__ = ()

    def __call__(self, *args, **kwargs):
        return self._assay_side.call(self._assay_ref, args, kwargs)


class Candidate(Function):
    # The function under test: a check that reads one of its attributes means the solution's.

    __slots__ = ()
    __doc__ = property(lambda self: self._assay_described({"op": "get", "ref": self._assay_ref, "name": "__doc__"}))

    def __getattr__(self, name):
        if name == "__signature__":
            return _signature(self._assay_described(_request(self, "signature", ())))
        if name in ("__name__", "__qualname__", "__annotations__"):
            return self._assay_described({"op": "get", "ref": self._assay_ref, "name": name})
        return _attribute(self, name)

    def _assay_described(self, request):
        # A check may only test a function's description and never call it. Then the verdict is marked as
        # self-reported.
        self._assay_side.calls += 1
        return self._assay_side.about(request)

    def __setattr__(self, name, value):
        _set(self, name, value)


class Manager(Function):
    """A context manager for a with statement. It never suppresses the check's exceptions."""

    __slots__ = ()

    def __enter__(self):
        return _special(self, "enter")

    def __exit__(self, kind, e, tb):
        _special(self, "exit")
        return False


class Iterator(Reference):
    """A generator, or any other iterator."""

    __slots__ = ()

    def __iter__(self):
        return self

    def __next__(self):
        return _next(self)

    def send(self, value):
        side = self._assay_side
        return side.value({"op": "send", "ref": self._assay_ref, "args": [side.codec.encode(value)]}, iterating=True)

    def close(self):
        self._assay_side.value({"op": "close", "ref": self._assay_ref})


class Awaitable(Reference):
    """A coroutine or other awaitable. It starts when it is awaited."""

    __slots__ = ("_assay_coroutine", "_assay_last")

    def __await__(self):
        return self._assay_begun().__await__()

    def _assay_begun(self):
        try:
            return self._assay_coroutine
        except AttributeError:
            coroutine = self._assay_side.awaited(self)
            object.__setattr__(self, "_assay_coroutine", coroutine)
            return coroutine

    def send(self, value):
        return self._assay_begun().send(value)

    def throw(self, *args):
        return self._assay_begun().throw(*args)

    def close(self):
        return self._assay_begun().close()


collections.abc.Coroutine.register(Awaitable)  # so that asyncio.run accepts it


class AsyncIterator(Reference):
    """An asynchronous generator, or any other asynchronous iterator."""

    __slots__ = ()

    def __aiter__(self):
        return self

    def __anext__(self):
        return self._assay_side.perform(self._assay_ref, "anext")

    def asend(self, value):
        return self._assay_side.perform(self._assay_ref, "asend", value)

    def aclose(self):
        return self._assay_side.perform(self._assay_ref, "aclose")


class AsyncManager(Reference):
    """A context manager for an async with statement. It never suppresses the check's exceptions."""

    __slots__ = ()

    def __aenter__(self):
        return self._assay_side.perform(self._assay_ref, "aenter")

    async def __aexit__(self, kind, e, tb):
        await self._assay_side.perform(self._assay_ref, "aexit")
        return False


class Record(Reference):
    """An object of another class than the one under test: its fields, without methods."""

    __slots__ = ()

    def __getattr__(self, name):
        value = _attribute(self, name)
        if isinstance(value, Function):
            self._assay_side.refuse("has a %s whose %s is a method: only the class under test has any" % (self._assay_name, name))
        return value

    def __setattr__(self, name, value):
        _set(self, name, value)


class Object(Reference):
    """An instance of the class under test, with all of its operations.

    Comparison with plain values is excluded, because an object that equals everything would pass every test. It
    equals no value, and another instance only if the two report so.
    """

    __slots__ = ()
    __hash__ = Reference.__hash__

    def __call__(self, *args, **kwargs):
        return self._assay_side.call(self._assay_ref, args, kwargs)

    def __getattr__(self, name):
        return _attribute(self, name)

    def __setattr__(self, name, value):
        _set(self, name, value)

    def __iter__(self):
        return _ask(self, "iter")

    def __eq__(self, other):
        if not isinstance(other, Object):
            return NotImplemented  # the other may be an object of the check with its own comparison
        if self._assay_ref == other._assay_ref:
            return True
        return _ask(self, "eq", other) is True

    def __bool__(self):
        return _ask(self, "bool") is True

    def __enter__(self):
        return _ask(self, "enter")

    def __exit__(self, kind, e, tb):
        _ask(self, "exit")
        return False

    def __aenter__(self):
        return _perform(self, "aenter")

    async def __aexit__(self, kind, e, tb):
        await _perform(self, "aexit")
        return False

    def __aiter__(self):
        return _ask(self, "aiter")

    def __anext__(self):
        return _perform(self, "anext")

    def __copy__(self):
        return _ask(self, "copy")

    def __deepcopy__(self, memo):
        return _ask(self, "deepcopy")


class Class(Object):
    """The class under test, or a related class."""

    __slots__ = ()
    __copy__, __deepcopy__ = Reference.__copy__, Reference.__deepcopy__

    def __instancecheck__(self, other):
        if not isinstance(other, (Object, Record)):
            return False
        return self._assay_side.about({"op": "is", "ref": self._assay_ref, "other": other._assay_ref}) is True


class Iterable(Object):
    """An instance of the class under test that is an iterator as well."""

    __slots__ = ()

    def __next__(self):
        return _next(self)


def _attribute(proxy, name):
    # Libraries probe for their own protocols; only a few are plausible in a check.
    if name.startswith("_assay") or name[:2] == "__" and name not in ("__name__", "__qualname__", "__dict__", "__annotations__", "__contains__"):
        raise AttributeError("%r has no attribute %r" % (proxy, name))
    return proxy._assay_side.about({"op": "get", "ref": proxy._assay_ref, "name": name})


def _signature(described):
    import inspect

    parameters = []
    for name, kind, has, value in described:
        parameters.append(inspect.Parameter(name, inspect._ParameterKind(kind), default=value if has else inspect.Parameter.empty))
    return inspect.Signature(parameters)


def _set(proxy, name, value):
    side = proxy._assay_side
    side.about({"op": "set", "ref": proxy._assay_ref, "name": name, "value": side.codec.encode(value)})


def _perform(proxy, what):
    side = proxy._assay_side
    side.self_reported = True
    return side.perform(proxy._assay_ref, what)


def _next(proxy):
    return proxy._assay_side.value({"op": "next", "ref": proxy._assay_ref}, iterating=True)


def _request(proxy, name, args):
    side = proxy._assay_side
    return {"op": "special", "ref": proxy._assay_ref, "name": name, "args": [side.codec.encode(a) for a in args]}


def _special(proxy, name, *args):
    return proxy._assay_side.value(_request(proxy, name, args))


def _ask(proxy, name, *args):
    return proxy._assay_side.about(_request(proxy, name, args))


def _define():
    """Define the operators of Object."""

    def unary(name):
        return lambda self, *args: _ask(self, name, *args)

    def binary(name):
        def f(self, other):
            # The other operand may be the check's expected value.
            return _ask(self, name, other) if isinstance(other, Object) else NotImplemented

        return f

    for name in "len str int float abs round neg pos invert index getitem setitem delitem reversed dir".split():
        setattr(Object, "__%s__" % name, unary(name))
    for name in "lt le gt ge add sub mul matmul truediv floordiv mod pow and or xor".split():
        setattr(Object, "__%s__" % name, binary(name))


_define()

# Kinds that any solution may return, and kinds for a class under test.
ANY = {
    "function": Function, "manager": Manager, "iterator": Iterator,
    "awaitable": Awaitable, "async iterator": AsyncIterator, "async manager": AsyncManager,
}  # fmt: skip
OF_A_CLASS = dict(ANY, **{"object": Object, "class": Class, "iterable": Iterable, "record": Record})
