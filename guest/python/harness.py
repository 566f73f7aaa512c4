"""Run one snippet as a script would run, and tell what came of it.

As a program: descriptor 3 holds the request, a JSON object with the keys code,
variables and context (or serve, see _serve), and descriptor 4 takes the result,
one JSON object with, where there are any, the keys value, exception, variables,
display (see _display) and order (pairs of a stream's descriptor and a number of
bytes). The result is written when the snippet is done, before exit handlers run;
a program that ends otherwise (os._exit, a signal) has none, and is judged by its
exit code alone.

As a module: prepare() does what does not depend on the snippet, and returns the
function run(request, result_fd) that does the rest and returns the exit code. A
zygote prepares once and forks a process for each run.

Standard library only, for Python 3.8 and later. Nothing here is a wall: the
snippet shares the process, so the reader of the result trusts none of it.
"""

import _ast  # the module ast is this and much that we do not need
import builtins
import os
import sys

FILENAME = "<job>"
MAX_VALUE = 64 << 10  # bytes of a value's repr or JSON
MAX_REPR = 2 << 10  # bytes of a variable's repr
MAX_MESSAGE = 8 << 10  # bytes of an exception's message
MAX_TRACEBACK = 48 << 10
MAX_VARIABLES = 200
MAX_DEPTH = 40  # of containers in a repr or JSON


def main():
    with os.fdopen(3, "rb") as f:
        data = f.read()
    request = _loads(data.decode())
    os.set_inheritable(4, False)  # what the snippet starts must not hold it open
    sys.exit(prepare()(request, 4))


def prepare():
    """Make __main__ and the streams ready, and return run.

    run runs request["code"] as __main__, writes the result to result_fd and
    returns the exit code, as the interpreter itself would choose it.

    Each page that a forked process writes to is copied for it, and to look at an
    object is to write to it. So run keeps to its own variables, and to what an
    ordinary snippet needs.
    """
    getpid = os.getpid
    module = _new_main()
    names = module.__dict__
    usual = set(names)
    if hasattr(sys.stdout, "reconfigure"):
        # What was printed before a kill must not sit in a buffer.
        sys.stdout.reconfigure(line_buffering=True, errors="backslashreplace")
    _keep_order()
    order, modules = _order, sys.modules
    lines = _remember_lines()

    def run(request, result_fd):
        pid = getpid()
        source = request.get("code") or ""
        given = request.get("variables")
        context = request.get("context")
        rules = request.get("imports")
        before = None
        if given or context is not None:
            given = dict(given or {})
            if context is not None:
                given["context"] = context
            before = {name: _fingerprint(value) for name, value in given.items()}
            names.update(given)
        result = {}
        code = 0
        value = failed = None
        try:
            if "serve" in request:
                _serve(**request["serve"])
            else:
                value = _execute(source, names, lines, rules and _rules(rules))
        except _Violation as e:
            result["violation"] = str(e)
            code = 1
        except SystemExit as e:
            code = _exit_code(e.code)
        except BaseException as e:
            failed = e
            code = 130 if isinstance(e, KeyboardInterrupt) else 1
        if failed is not None:
            result["exception"] = _exception(failed)
            _print_error(result["exception"]["traceback"])
            failed = None
        elif value is not None:
            result["value"] = _guard(_value, value)
        if before is not None or names.keys() != usual:
            result["variables"] = _guard(_variables, names, before or {}) or {}
        if value is not None or "matplotlib.pyplot" in modules:
            shown = _guard(_display, value)
            if shown:
                result["display"] = shown
        if len(order) > 1:
            result["order"] = order
        value = None
        _flush()
        if getpid() == pid:  # a child that the snippet forked ends up here too
            _write(result_fd, result)
        return code

    return run


def _new_main():
    """A fresh __main__, without this harness in sight."""
    module = type(sys)("__main__")
    module.__builtins__ = builtins
    module.__file__ = FILENAME
    sys.modules["__main__"] = module
    sys.argv = [FILENAME]
    # A script finds modules beside itself.
    if sys.path and sys.path[0].startswith(("/run/assay", "/proc/")):
        sys.path[0] = ""
    return module


def _execute(code, names, lines, rules=None):
    """Run code in names; the value of a last expression, else None.

    Raises _Violation, before anything runs, if code breaks the rules.
    """
    if code[:1] == "\ufeff":  # which is no part of a file's text
        code = code[1:]
    lines.extend(code.splitlines(True))
    parts = None if rules else _parts(code)
    if parts:
        head, last = parts
        if head:
            exec(head, names)
        return eval(last, names)
    tree = compile(code, FILENAME, "exec", _ast.PyCF_ONLY_AST, dont_inherit=True)
    if rules:
        broken = rules.broken(tree)
        if broken:
            raise _Violation(broken)
        names["__builtins__"] = rules.builtins()
    last = None
    if tree.body and isinstance(tree.body[-1], _ast.Expr):
        last = _ast.Expression(tree.body.pop().value)
    flags = 0
    if tree.body:
        exec(compile(tree, FILENAME, "exec", dont_inherit=True), names)
        flags = _future_flags(tree)
    if last is None:
        return None
    return eval(compile(last, FILENAME, "eval", flags=flags, dont_inherit=True), names)


# What no expression begins with, and a line that goes on with what was before.
_STATEMENTS = (
    "def ", "class ", "if ", "elif ", "else", "for ", "while ", "with ", "try:", "except", "finally",
    "import ", "from ", "return", "raise ", "assert ", "del ", "async ", "@", "match ", "case ", "pass", "global ",
)  # fmt: skip
_CONTINUED = " \t\r\n\f#)]}"


def _parts(code):
    """What comes before a last expression, compiled, None if nothing does, and that expression, compiled.

    None if code has no such expression, or if that takes a tree to know. Most
    code that has one shows it: a line at the margin begins it, and what is before
    that line is code by itself, as is what follows. A tree costs more than to
    compile the two, because each of its nodes is an object.
    """
    text = code.rstrip(" \t\r\n\f")
    at = len(text)
    while at > 0:
        at = text.rfind("\n", 0, at)
        if text[at + 1 : at + 2] not in _CONTINUED:  # which the empty text is
            break
    at += 1
    tail = text[at:]
    if not tail or tail.startswith(_STATEMENTS) or tail.partition("=")[0].rstrip().isidentifier():
        return None
    if text[:at].rstrip("\r\n").endswith("\\") or "__future__" in text:
        return None
    try:
        last = compile("\n" * text.count("\n", 0, at) + tail, FILENAME, "eval", dont_inherit=True)
        return compile(text[:at], FILENAME, "exec", dont_inherit=True) if at else None, last
    except Exception:
        return None  # whatever it is, the tree will tell


def _serve(module, function, sources=()):
    """Serve the worker on descriptor 5, by a function of a module that is here or made of sources."""
    if sources and "harness" not in sys.modules:
        lent = sys.modules["harness"] = type(sys)("harness")
        lent.__dict__.update(globals())
    for name, source in sources:
        sys.modules[name] = _lent(name, source)
    getattr(sys.modules[module], function)(5)


class _Violation(BaseException):
    """The code breaks a rule that can be seen without running it."""


def _rules(asked):
    """The rules for imports that a request has; what knows them is here, or lent."""
    known = sys.modules.get("assay_imports") or _lent("assay_imports", asked["source"])
    return known.Rules(asked)


def _lent(name, source):
    """A module made of source."""
    made = type(sys)(name)
    made.__file__ = "<%s>" % name
    exec(compile(source, made.__file__, "exec", dont_inherit=True), made.__dict__)
    return made


def _remember_lines():
    """Let tracebacks show the snippet's lines, whoever makes them.

    Returns the list that they are to be put into.
    """
    lines = []
    # Without a modification time the entry is never looked up on disk.
    entry = (0, None, lines, FILENAME)
    if "linecache" in sys.modules:
        sys.modules["linecache"].cache[FILENAME] = entry
    else:
        sys.meta_path.insert(0, _Linecache(entry))
    return lines


class _Linecache:
    """Puts an entry into linecache when that is imported: most snippets never do."""

    def __init__(self, entry):
        self.entry = entry

    def find_spec(self, name, path=None, target=None):
        if name != "linecache":
            return None
        import importlib.util

        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        load = spec.loader.exec_module

        def exec_module(module):
            load(module)
            module.cache[FILENAME] = self.entry

        spec.loader.exec_module = exec_module
        return spec


def _future_flags(tree):
    """The compiler flags of the __future__ imports in tree."""
    flags = 0
    for node in tree.body:
        if isinstance(node, _ast.ImportFrom) and node.module == "__future__":
            import __future__

            for alias in node.names:
                feature = getattr(__future__, alias.name, None)
                flags |= getattr(feature, "compiler_flag", 0)
    return flags


def _exit_code(code):
    """What sys.exit(code) means to the interpreter."""
    if code is None:
        return 0
    if isinstance(code, int):
        return code & 0xFF
    _flush()
    _print_error(_guard(str, code) or "")
    return 1


# Exceptions


def _exception(e):
    """Type, message, line and traceback of e, with the user's frames only."""
    kind = type(e)
    name = _guard(lambda: kind.__qualname__) or "Exception"
    module = _guard(lambda: kind.__module__)
    if module not in (None, "builtins", "__main__"):
        name = "%s.%s" % (module, name)
    message = _guard(str, e)
    if message is None:
        message = "<str() of the exception failed>"
    text = _guard(_traceback, e)
    if text is None:
        text = "%s: %s\n" % (name, message)
    return {
        "type": _cut(name, 256),
        "message": _cut(message, MAX_MESSAGE),
        "line": _guard(_line, e) or 0,
        "traceback": _cut_middle(text, MAX_TRACEBACK),
    }


def _user_frames(tb):
    """tb without the harness's own frames at its start, and those of its rules at its end."""
    while tb is not None and tb.tb_frame.f_code.co_filename == __file__:
        tb = tb.tb_next
    at = tb
    while at is not None and at.tb_next is not None:
        if at.tb_next.tb_frame.f_code.co_filename == "<assay_imports>":
            at.tb_next = None
        at = at.tb_next
    return tb


def _line(e):
    """The last line of the snippet that the exception passed, 0 if none."""
    if isinstance(e, SyntaxError) and e.filename == FILENAME:
        return e.lineno or 0
    line = 0
    tb = e.__traceback__
    while tb is not None:
        if tb.tb_frame.f_code.co_filename == FILENAME:
            line = tb.tb_lineno
        tb = tb.tb_next
    return line


def _traceback(e):
    import traceback

    seen = set()
    stack = [e]
    while stack:  # causes and contexts too, each once
        x = stack.pop()
        if x is None or id(x) in seen or len(seen) > 100:
            continue
        seen.add(id(x))
        x.__traceback__ = _user_frames(x.__traceback__)
        stack += [x.__cause__, x.__context__]
    if isinstance(e, SyntaxError) and e.filename == FILENAME and e.__traceback__ is not None:
        # Raised by the parser on behalf of the snippet: ast's own frame is noise.
        if e.__traceback__.tb_frame.f_code.co_filename != FILENAME:
            e.__traceback__ = None
    return "".join(traceback.format_exception(type(e), e, e.__traceback__))


# Values


def _value(value):
    out = {"type": _type(value), "repr": _repr(value, MAX_VALUE)}
    text = _guard(_json, value)
    if text is not None and len(text) <= MAX_VALUE:
        out["json"] = _Raw(value)
    return out


class _Raw:
    """Marks a value that is its own JSON."""

    def __init__(self, value):
        self.value = value


def _json(value):
    """value as JSON text, None if that would not say all of it."""
    if not _faithful(value, 0, [10000]):
        return None
    return _dumps(value)


def _faithful(value, depth, budget, deepest=MAX_DEPTH, long=False):
    """Whether JSON says all of value. budget is of values, and of characters too if texts may be long."""
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


def _encodable(text):
    """Lone surrogates and NUL do not survive everywhere that JSON goes."""
    if "\0" in text:
        return False
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _variables(names, before):
    """The names that the snippet created or changed."""
    out = {}
    for name, value in sorted((k, v) for k, v in list(names.items()) if isinstance(k, str) and not k.startswith("_")):
        if isinstance(value, type(sys)):
            continue
        if name in before and before[name] == _fingerprint(value):
            continue
        if len(out) >= MAX_VARIABLES:
            break
        out[_cut(name, 200)] = {"type": _type(value), "repr": _repr(value, MAX_REPR)}
    return out


def _fingerprint(value):
    """Tells a changed variable from the one that was given."""
    return (id(value), type(value).__name__, _repr(value, 1 << 20) if type(value) in (list, dict) else None)


def _type(value):
    name = _guard(lambda: type(value).__qualname__)
    return _cut(name, 256) if isinstance(name, str) else "?"


def _repr(value, limit):
    """repr(value) of about limit bytes; it never raises."""
    out = []
    try:
        whole = _write_repr(value, out, limit, 0, set())
        text = "".join(out)
    except BaseException as e:
        return "<repr failed: %s>" % _type(e)
    if not whole or len(text) > limit:
        text = text[:limit] + "…"
    return _cut(text, limit)


def _write_repr(value, out, budget, depth, open_ids):
    """Append repr(value) to out until budget is used up.

    Returns whether all of it fitted. Containers are walked here, so that a list
    of a million items costs no more than what is shown of it.
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
        text = repr(value)
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
            whole = _write_repr(item[0], out, budget - used, depth + 1, open_ids)
            if whole:
                out.append(": ")
                whole = _write_repr(item[1], out, budget - used, depth + 1, open_ids)
        else:
            whole = _write_repr(item, out, budget - used, depth + 1, open_ids)
        used += sum(len(x) for x in out[start:])
        if not whole or used > budget:
            whole = False
            break
    open_ids.discard(id(value))
    if whole:
        out.append(",)" if kind is tuple and len(value) == 1 else pairs[1])
    return whole


# Output


def _guard(f, *args):
    """f(*args), None if it raises: the snippet's own methods may do anything."""
    try:
        return f(*args)
    except BaseException:
        return None


def _cut(text, limit):
    """text as plain str of at most limit UTF-8 bytes."""
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


MAX_ROWS = 100  # of a data frame, and columns
MAX_FIGURES = 20
MAX_ORDER = 2000
_order = []


def _keep_order():
    """Have the standard streams note which of them wrote how much, in order.

    What writes to the descriptors beside them makes the sums wrong, so the reader
    sees that the order is not known.
    """
    import io

    del _order[:]
    for number, name in ((1, "stdout"), (2, "stderr")):
        stream = getattr(sys, name)
        if type(stream) is io.TextIOWrapper and stream.encoding.lower() in ("utf-8", "utf8"):
            stream = _noted(io.TextIOWrapper, number, stream)
            setattr(sys, name, stream)
            setattr(sys, "__%s__" % name, stream)


def _noted(base, number, stream):
    write = base.write

    class TextIOWrapper(base):
        def write(self, text):
            n = write(self, text)
            size = n if text.isascii() else len(text.encode("utf-8", "backslashreplace"))
            if _order and _order[-1][0] == number:
                _order[-1][1] += size
            elif size and len(_order) < MAX_ORDER:
                _order.append([number, size])
            return n

    noted = TextIOWrapper(stream.detach(), encoding="utf-8", errors="backslashreplace", line_buffering=True)
    noted.mode = "w"
    return noted


def _display(value):
    """What there is to look at: a data frame as a table, and figures that are open.

    Figures are written to the working directory: artifacts, if the policy wants them.
    """
    out = _table(value)
    figures = _figures()
    if figures:
        for i, data in enumerate(figures):
            path = os.path.abspath("figure-%d.png" % (i + 1))
            with open(path, "wb") as f:
                f.write(data)
            out.append({"media_type": "image/png", "path": path})
    return out


def _table(value):
    """The head of a data frame, if value is one."""
    if not (hasattr(type(value), "to_records") and hasattr(value, "columns")):
        return []
    columns = [_cut(str(c), 200) for c in list(value.columns)[:MAX_ROWS]]
    rows = [[_cut(str(v), 200) for v in row[:MAX_ROWS]] for row in value.head(MAX_ROWS).values.tolist()]
    return [{"media_type": "application/vnd.assay.table+json", "table": {"columns": columns, "rows": rows, "total": len(value)}}]


def _figures():
    """The figures that are open, as PNG; then they are not any more."""
    pyplot = sys.modules.get("matplotlib.pyplot")
    if pyplot is None:
        return []
    import io

    out = []
    for number in pyplot.get_fignums()[:MAX_FIGURES]:
        f = io.BytesIO()
        pyplot.figure(number).savefig(f, format="png")
        out.append(f.getvalue())
    pyplot.close("all")
    return out


def _flush():
    for name in "stdout", "stderr":
        try:
            getattr(sys, name).flush()
        except BaseException:
            pass


def _print_error(text):
    _flush()
    if text and not text.endswith("\n"):
        text += "\n"
    _guard(lambda: sys.stderr.write(text))
    _flush()


# The module json takes as long to import as the interpreter to start. What it is
# built on is there at once, where the interpreter is CPython.


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


def _write(fd, result):
    data = _dumps(result).encode() if result else b"{}"
    try:
        while data:
            data = data[os.write(fd, data) :]
        os.close(fd)
    except OSError:
        pass  # closed by the snippet: then there is no result


if __name__ == "__main__":
    main()
