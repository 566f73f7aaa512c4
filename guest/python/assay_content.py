"""Compare and replace the content of objects.

The content of an object is its mutable parts: the items of a container, the fields of an instance, the text of a file
in memory. A call of a solution compares the content of its arguments before and after. The check replaces the content
of its own objects with the changed one.

Standard library only, for Python 3.8 and later.
"""

import operator

from assay_wire import delete_field, field_names, get_field, is_array, set_field

_is = operator.is_


def content_of(value):
    """Return the mutable parts of an object, or None."""
    kind = type(value)
    if kind is list:
        return list, tuple(value)
    if kind is dict:
        return dict, (*value, *value.values())
    if kind is tuple:
        return None
    if kind is set:
        return set, tuple(value)
    if kind is bytearray:
        return bytes, bytes(value)
    if isinstance(value, dict):
        return dict, (*value, *dict.values(value))
    module = kind.__module__
    if module == "_io":
        return bytes, (value.closed, None if value.closed else (value.tell(), value.getvalue()))
    if module == "collections" or module == "array":
        return list, tuple(value)
    if is_array(kind):
        return bytes, value.tobytes()
    if issubclass(kind, tuple):
        return None
    if module == "types":
        return list, (*vars(value), *vars(value).values())
    names = field_names(value, kind)
    return list, (*names, *[get_field(value, kind, k) for k in names])


def unchanged(value, content):
    if type(value) is list:
        return len(value) == len(content) and all(map(_is, value, content))
    return _same(content_of(value), content)


def _same(a, b):
    if a is None or a[0] is not b[0]:
        return a is b
    if a[0] is bytes:
        return a[1] == b[1]
    return len(a[1]) == len(b[1]) and all(map(_is, a[1], b[1]))


def equal(a, b):
    """Report whether two objects of one type have identical parts or equal plain values."""
    if type(a) is not type(b):
        return False
    if type(a) is tuple:
        x, y = (tuple, a), (tuple, b)
    else:
        x, y = content_of(a), content_of(b)
    if x is None or y is None or x[0] is not y[0]:
        return False
    if x[0] is bytes:
        return x[1] == y[1]
    plain = (int, float, str, bool, bytes, complex)
    return len(x[1]) == len(y[1]) and all(p is q or type(p) is type(q) and type(p) in plain and p == q for p, q in zip(x[1], y[1]))


def replace(old, new):
    """Replace the content of old with that in new, an object of the same type."""
    kind = type(old)
    if kind is not type(new):
        raise ValueError("another type")
    if kind is list or kind is bytearray or kind.__module__ == "array":
        old[:] = new
    elif isinstance(old, dict):
        old.clear()
        for k, v in new.items():
            old[k] = v
    elif kind is set:
        old.clear()
        old.update(new)
    elif kind.__module__ == "collections":
        old.clear()
        old.extend(new)
    elif kind.__module__ == "_io":
        _replace_file(old, new)
    elif kind.__module__ == "types":
        vars(old).clear()
        vars(old).update(vars(new))
    elif is_array(kind):
        if old.shape != new.shape or old.dtype != new.dtype:
            raise ValueError("another shape")
        old[...] = new
    elif not isinstance(old, tuple):
        _replace_fields(old, new, kind)


def _replace_file(old, new):
    if new.closed or old.closed:
        old.close()
        return
    old.seek(0)
    old.truncate()
    old.write(new.getvalue())
    old.seek(new.tell())


def _replace_fields(old, new, kind):
    names = field_names(new, kind)
    for k in field_names(old, kind):
        value = get_field(old, kind, k)
        # functions are not sent back
        if k not in names and not callable(value) and not hasattr(type(value), "__next__"):
            delete_field(old, kind, k)
    for k in names:
        set_field(old, kind, k, get_field(new, kind, k))
