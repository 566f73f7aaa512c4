"""Run one snippet as a script would run, and tell what came of it.

As a program: descriptor 3 holds the request, a JSON object with the keys code,
variables and context (or serve, see _serve; or script, see _run_script), and descriptor 4 takes the result,
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

# The worker has the text of it in this place: see python.go. All that sessions and graded
# solutions have of it is named here, too.
from assay_values import (  # fmt: skip
    MAX_VARIABLES, _cut, _cut_middle, _display, _dumps, _faithful, _figures, _fingerprint, _guard, _loads, _repr, _table,
    _tagged, _value, _variables,
)

FILENAME = "<job>"
REQUEST, RESULT, STREAM = 3, 4, 5  # descriptors: see internal/guest/descriptors.go
MAX_MESSAGE = 8 << 10  # bytes of an exception's message
MAX_TRACEBACK = 48 << 10


def main():
    with os.fdopen(REQUEST, "rb") as f:
        data = f.read()
    request = _loads(data.decode())
    os.set_inheritable(RESULT, False)  # what the snippet starts must not hold it open
    sys.exit(prepare()(request, RESULT))


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
        script = request.get("script")
        before = None
        result = {}
        code = 0
        value = failed = None
        try:
            if given or context is not None:
                given = dict(given or {})
                if context is not None:
                    given["context"] = context
                given = _arrived(given, request)
                before = {name: _fingerprint(value) for name, value in given.items()}
                names.update(given)
            if "serve" in request:
                _serve(**request["serve"])
            elif script:
                _run_script(source, names, **script)
            else:
                value = _execute(source, names, lines, rules and _rules(rules))
        except _Violation as e:
            result["violation"] = str(e)
            code = 1
        except SystemExit as e:
            code = _exit_code(e)
        except BaseException as e:
            failed = e
            code = 130 if isinstance(e, KeyboardInterrupt) else 1
        if failed is not None:
            result["exception"] = _exception(failed)
            if sys.excepthook is sys.__excepthook__:
                _print_error(result["exception"]["traceback"])
            else:
                code = _call_hook(failed, result["exception"]["traceback"], code)
            failed = None
        elif value is not None:
            result["value"] = _guard(_value, value)
        if script:
            pass  # it is judged by its streams and its exit code
        elif before is not None or names.keys() != usual:
            result["variables"] = _guard(_variables, names, before or {}) or {}
        if value is not None or "matplotlib.pyplot" in modules and not script:
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


def _run_script(code, names, path, args=()):
    """Run code as "python3 path args" does, whose file it is the text of."""
    import io

    # Those of a snippet note who wrote when, and write each line at once: a script's output is one text in the end.
    for name, errors, by_line in (("stdout", "strict", False), ("stderr", "backslashreplace", True)):
        stream = io.TextIOWrapper(getattr(sys, name).detach(), encoding="utf-8", errors=errors, line_buffering=by_line)
        stream.mode = "w"
        setattr(sys, name, stream)
        setattr(sys, "__%s__" % name, stream)
    sys.argv = [path, *args]
    if sys.path:
        sys.path[0] = os.path.dirname(path)
    names["__file__"] = path
    if code[:1] == "\ufeff":
        code = code[1:]
    exec(compile(code, path, "exec", dont_inherit=True), names)


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
    """Serve the worker on the stream, by a function of a module that is here or made of sources."""
    if sources and "harness" not in sys.modules:
        lent = sys.modules["harness"] = type(sys)("harness")
        lent.__dict__.update(globals())
    for name, source in sources:
        sys.modules[name] = _lent(name, source)
    getattr(sys.modules[module], function)(STREAM)


class _Violation(BaseException):
    """The code breaks a rule that can be seen without running it."""


def _rules(asked):
    """The rules for imports that a request has; what knows them is here, or lent."""
    known = sys.modules.get("assay_imports") or _lent("assay_imports", asked["source"])
    return known.Rules(asked)


def _arrived(given, request):
    """Variables as values, by the names that code has for them."""
    if request.get("tagged"):
        wire = sys.modules.get("assay_wire") or _lent("assay_wire", request["wire"])
        given = wire.Codec(None, _unknown_tag).decode_all(given)
    return {_name(k): v for k, v in given.items()}


def _unknown_tag(tag, value):
    raise ValueError("$%s is not a tag of a value" % _cut(tag, 100))


def _name(text):
    """An identifier as Python writes it in a namespace."""
    if text.isascii():
        return text
    import unicodedata

    return unicodedata.normalize("NFKC", text)


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


def _exit_code(e):
    """The exit code of a SystemExit, as the interpreter chooses it. A message goes to stderr."""
    code = e.code
    if code is None:
        return 0
    if isinstance(code, int):
        code = int.__index__(code)
        return code & 0xFF if -1 << 63 <= code < 1 << 63 else 0xFF
    _flush()
    text = _guard(str, code)
    _guard(lambda: sys.stderr.write((text if type(text) is str else "") + "\n"))
    _flush()
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


# Output


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


_fflush = None  # fflush of the C library, where ctypes is loaded


def _flush_c():
    """Flush the streams of the C library. Only extensions and ctypes write to them."""
    global _fflush
    if _fflush is None:
        ctypes = sys.modules.get("ctypes")
        if ctypes is None:
            return
        _fflush = ctypes.PyDLL(None).fflush
    _fflush(None)


def _finish():
    """Do what the interpreter does at its end that a program can notice."""
    threading, atexit = sys.modules.get("threading"), sys.modules.get("atexit")
    for end in threading and threading._shutdown, atexit and atexit._run_exitfuncs, _flush, _flush_c:
        if end:
            _guard(end)


def _end_child(failed, code):
    """End a process that a snippet forked and that came to the end of the snippet. failed is the exception it raised."""
    try:
        if failed is not None:
            code = 130 if isinstance(failed, KeyboardInterrupt) else 1
            _print_error(_exception(failed)["traceback"])
        _finish()
    finally:
        os._exit(code)


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


def _call_hook(failed, text, code):
    """Call the snippet's sys.excepthook with the exception, as the interpreter does. Returns the exit code."""
    trace = failed.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename == _call_hook.__code__.co_filename:
        trace = trace.tb_next
    try:
        sys.excepthook(type(failed), failed, trace)
    except SystemExit as e:
        code = _exit_code(e)
    except BaseException as e:
        _print_error("Error in sys.excepthook:\n" + _exception(e)["traceback"] + "\nOriginal exception was:\n" + text)
    _flush()
    return code


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
