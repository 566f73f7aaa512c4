"""Run one snippet like a script, and report its result.

As a program: descriptor 3 holds the request, a JSON object with the keys code, variables and context (or serve, see
_serve; or script, see _run_script). Descriptor 4 takes the result, one JSON object with the optional keys value,
exception, variables, display (see _display) and order (pairs of a stream's descriptor and a number of bytes). The
result is written at the end of the snippet, before exit handlers run. A program that ends otherwise (os._exit, a
signal) has no result; only its exit code counts.

As a module: prepare() does the work that is independent of the snippet. It returns the function run(request,
result_fd), which does the rest and returns the exit code. A zygote prepares once and forks a process for each run.

Standard library only, for Python 3.8 and later. This is not a security boundary: the snippet shares the process, so
the reader must not trust the result.
"""

import _ast  # the module ast adds much that we do not need
import builtins
import os
import sys

# The worker has the text of it in this place: see python.go. All that sessions and graded
# solutions have of it is named here, too.
from assay_values import (  # fmt: skip
    MAX_VARIABLES, _cut, _cut_middle, _dumps, _faithful, _fingerprint, _guard, _loads, _repr,
    _tagged, _type, _value, _variables,
)
from assay_look import (  # fmt: skip
    _display, _figures, _is_plain_error, _Looker, _table,
)

FILENAME = "<job>"
REQUEST, RESULT, STREAM = 3, 4, 5  # descriptors: see internal/guest/descriptors.go
MAX_MESSAGE = 8 << 10  # bytes of an exception's message
MAX_TRACEBACK = 48 << 10


def main():
    with os.fdopen(REQUEST, "rb") as f:
        data = f.read()
    request = _loads(data.decode())
    os.set_inheritable(RESULT, False)  # programs started by the snippet must not hold it open
    sys.exit(prepare()(request, RESULT))


def prepare():
    """Prepare __main__ and the streams, and return run.

    run runs request["code"] as __main__, writes the result to result_fd and returns the exit code that the
    interpreter itself would choose.

    Each page that a forked process writes to is copied, and every access to an object is a write. So run uses only
    its own variables and the needs of an ordinary snippet.
    """
    getpid = os.getpid
    module = _new_main()
    names = module.__dict__
    usual = set(names)
    if hasattr(sys.stdout, "reconfigure"):
        # Output before a kill must not stay in a buffer.
        sys.stdout.reconfigure(line_buffering=True, errors=sys.stdout.errors if _encoded() else "backslashreplace")
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
        looker = _Looker(request.get("wall"))
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
            result["exception"] = _exception(failed, looker if getpid() == pid else None)
            if sys.excepthook is sys.__excepthook__:
                _print_error(result["exception"]["traceback"])
            else:
                code = _call_hook(failed, result["exception"]["traceback"], code)
            failed = None
        elif value is not None and getpid() == pid:
            result["value"] = _guard(_value, value, looker)
        if script or getpid() != pid:
            pass  # a script is judged by its streams and exit code; a child that the snippet forked, by its parent
        elif before is not None or names.keys() != usual:
            result["variables"] = _guard(_variables, names, before or {}, looker) or {}
        if (value is not None or "matplotlib.pyplot" in modules and not script) and getpid() == pid:
            shown = _guard(_display, value, looker)
            if shown:
                result["display"] = shown
        if looker.later:
            _flush()
            looker.finish()
        if len(order) > 1:
            result["order"] = order
        value = None
        _flush()
        if getpid() == pid:  # a child that the snippet forked ends up here too
            _write(result_fd, result)
        return code

    return run


def _new_main():
    """Return a new __main__ that does not expose this harness."""
    module = type(sys)("__main__")
    module.__builtins__ = builtins
    module.__file__ = FILENAME
    sys.modules["__main__"] = module
    sys.argv = [FILENAME]
    # A script finds modules in its own directory.
    if sys.path and sys.path[0].startswith(("/run/assay", "/proc/")):
        sys.path[0] = ""
    return module


def _execute(code, names, lines, rules=None, filename=FILENAME, loop=None):
    """Run code in names. Return the value of a last expression, or None.

    Code may await at its top level. Then the event loop from loop runs it, or a new one. It raises _Violation before
    running anything if code breaks the rules.
    """
    if code[:1] == "\ufeff":  # not part of a file's text
        code = code[1:]
    text = code.splitlines(True)
    # It also splits lines at form feeds, unlike Python.
    lines.extend(text if len(text) == code.count("\n") + (code[-1:] not in ("\n", "")) else _lines(code))
    parts = None if rules else _parts(code, filename)
    if not parts:
        tree = compile(code, filename, "exec", _ast.PyCF_ONLY_AST, dont_inherit=True)
        if rules:
            broken = rules.broken(tree)
            if broken:
                raise _Violation(broken)
            names["__builtins__"] = rules.builtins()
        parts = _halves(tree, filename, code)
    head, last = parts
    if ((head.co_flags if head else 0) | (last.co_flags if last else 0)) & CO_COROUTINE:
        return _await(head, last, names, loop)
    if head:
        exec(head, names)
    return eval(last, names) if last else None


CO_COROUTINE = 0x80  # flag of code that awaits


def _lines(code):
    """Return the lines of code as Python counts them."""
    lines = code.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    return [line + "\n" for line in lines[:-1]] + lines[-1:]


def _halves(tree, filename, code):
    """Return the code of tree, and the code of its last expression if it has one."""
    last = None
    if tree.body and isinstance(tree.body[-1], _ast.Expr):
        last = _ast.Expression(tree.body.pop().value)
    future = _future_flags(tree)
    error = None
    for flags in 0, getattr(_ast, "PyCF_ALLOW_TOP_LEVEL_AWAIT", 0):
        try:
            head = compile(tree, filename, "exec", flags, dont_inherit=True)
            return head, last and compile(last, filename, "eval", flags | future, dont_inherit=True)
        except SyntaxError as e:
            error = error or e
            if "await" not in code and "async" not in code:
                break
    raise error


# Event loops


def _await(head, last, names, loop):
    """Run code that awaits, and return the value of the expression last."""
    import asyncio

    async def snippet():
        value = None
        for code in head, last:
            if code:
                value = eval(code, names)
                if code.co_flags & CO_COROUTINE:
                    value = await value
        return value

    run = asyncio.run
    asyncio.run = nested = _nestable(run)
    try:
        if loop is None:
            return run(snippet())
        return _run_on(loop(), snippet())
    finally:
        if asyncio.run is nested:
            asyncio.run = run


def _run_on(loop, coroutine):
    """Run a coroutine on a loop that continues to be used. An interrupt cancels it."""
    task = loop.create_task(coroutine)
    try:
        return loop.run_until_complete(task)
    except BaseException:
        if not task.done() and not loop.is_closed() and not loop.is_running():
            task.cancel()
            _guard(lambda: loop.run_until_complete(sys.modules["asyncio"].wait([task], timeout=0.5)))
        raise


def _nestable(run):
    """Return asyncio.run as in a script, but also usable inside our own running loop, which waits."""
    import asyncio

    def nestable(main, **options):
        loop = asyncio._get_running_loop()
        if loop is None:
            return run(main, **options)
        task = asyncio.current_task(loop)
        if task is None or getattr(task.get_coro(), "cr_code", None) is not ours:
            return run(main, **options)
        asyncio.tasks._leave_task(loop, task)
        asyncio._set_running_loop(None)
        try:
            return run(main, **options)
        finally:
            asyncio._set_running_loop(loop)
            asyncio.tasks._enter_task(loop, task)

    ours = next(c for c in _await.__code__.co_consts if getattr(c, "co_name", "") == "snippet")
    nestable.__name__ = nestable.__qualname__ = "run"
    nestable.__doc__ = run.__doc__
    return nestable


def _run_script(code, names, path, args=()):
    """Run code like "python3 path args"; code is the text of the file."""
    import io

    # The streams of a snippet record their order and flush each line; a script's output needs neither.
    for name, errors, by_line in (("stdout", "strict", False), ("stderr", "backslashreplace", True)):
        given = getattr(sys, name)
        encoding, errors = (given.encoding, given.errors) if _encoded() else ("utf-8", errors)
        stream = io.TextIOWrapper(given.detach(), encoding=encoding, errors=errors, line_buffering=by_line)
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


# Prefixes that no expression has, and continuation lines.
_STATEMENTS = (
    "def ", "class ", "if ", "elif ", "else", "for ", "while ", "with ", "try:", "except", "finally",
    "import ", "from ", "return", "raise ", "assert ", "del ", "async ", "@", "match ", "case ", "pass", "global ",
)  # fmt: skip
_CONTINUED = " \t\r\n\f#)]}"


def _parts(code, filename):
    """Return the code before a last expression, compiled, or None if there is none, and that expression, compiled.

    Return None if code has no such expression, or if only a tree can show it. Usually the last unindented line starts
    it, and the text before that line compiles by itself, as does the rest. A tree costs more than both compilations,
    because each node is an object.
    """
    text = code.rstrip(" \t\r\n\f")
    at = len(text)
    while at > 0:
        at = text.rfind("\n", 0, at)
        if text[at + 1 : at + 2] not in _CONTINUED:  # which includes the empty text
            break
    at += 1
    tail = text[at:]
    if not tail or tail.startswith(_STATEMENTS) or tail.partition("=")[0].rstrip().isidentifier():
        return None
    if text[:at].rstrip("\r\n").endswith("\\") or "__future__" in text:
        return None
    try:
        last = compile("\n" * text.count("\n", 0, at) + tail, filename, "eval", dont_inherit=True)
        return compile(text[:at], filename, "exec", dont_inherit=True) if at else None, last
    except Exception:
        return None  # in any case the tree will show


def _serve(module, function, sources=()):
    """Serve the worker on the stream with a function of a module, which exists already or is created from sources."""
    if sources and "harness" not in sys.modules:
        lent = sys.modules["harness"] = type(sys)("harness")
        lent.__dict__.update(globals())
    for name, source in sources:
        sys.modules[name] = _lent(name, source)
    getattr(sys.modules[module], function)(STREAM)


class _Violation(BaseException):
    """The code visibly breaks a rule."""


def _rules(asked):
    """Return the import rules in a request. Their module exists already or is created from its source."""
    known = sys.modules.get("assay_imports") or _lent("assay_imports", asked["source"])
    return known.Rules(asked)


def _arrived(given, request):
    """Return variables as values, by their names in the code."""
    if request.get("tagged"):
        wire = sys.modules.get("assay_wire") or _lent("assay_wire", request["wire"])
        given = wire.Codec(None, _unknown_tag).decode_all(given)
    return {_name(k): v for k, v in given.items()}


def _unknown_tag(tag, value):
    raise ValueError("$%s is not a tag of a value" % _cut(tag, 100))


def _name(text):
    """Return an identifier in the form of Python's namespaces."""
    if text.isascii():
        return text
    import unicodedata

    return unicodedata.normalize("NFKC", text)


def _lent(name, source):
    """Create a module from source."""
    made = type(sys)(name)
    made.__file__ = "<%s>" % name
    exec(compile(source, made.__file__, "exec", dont_inherit=True), made.__dict__)
    return made


def _remember_lines(filename=FILENAME):
    """Add a source to linecache for tracebacks. Return the list for its lines."""
    lines = []
    # Without a modification time, linecache never checks the entry on disk.
    entry = (0, None, lines, filename)
    if "linecache" in sys.modules:
        sys.modules["linecache"].cache[filename] = entry
    else:
        sys.meta_path.insert(0, _Linecache(entry))
    return lines


class _Linecache:
    """Adds an entry to linecache when that is imported, which most snippets never do."""

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
            module.cache[self.entry[3]] = self.entry

        spec.loader.exec_module = exec_module
        return spec


def _future_flags(tree):
    """Return the compiler flags of the __future__ imports in tree."""
    flags = 0
    for node in tree.body:
        if isinstance(node, _ast.ImportFrom) and node.module == "__future__":
            import __future__

            for alias in node.names:
                feature = getattr(__future__, alias.name, None)
                flags |= getattr(feature, "compiler_flag", 0)
    return flags


def _exit_code(e):
    """Return the exit code of a SystemExit as the interpreter does. A message goes to stderr."""
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


def _exception(e, looker=None):
    """Return type, message, line, source and traceback of e, with the user's frames only.

    A looker runs the exception's own methods within its time.
    """
    if looker is not None and not _guard(_is_plain_error, e):
        _flush()
        found = looker.now(lambda: _exception(e))
        return found if type(found) is dict else _exception_unseen(e, found)
    kind = type(e)
    name = _type(e) or "Exception"
    module = _guard(lambda: kind.__module__)
    if type(module) is str and module not in ("builtins", "__main__"):
        name = "%s.%s" % (module, name)
    message = _guard(str, e)
    if message is None:
        message = "<str() of the exception failed>"
    text = _guard(_traceback, e)
    if text is None:
        text = "%s: %s\n" % (name, message)
    line, source = _guard(_line, e) or (0, None)
    out = {
        "type": _cut(name, 256),
        "message": _cut(message, MAX_MESSAGE),
        "line": line,
        "traceback": _cut_middle(text, MAX_TRACEBACK),
    }
    if source and source != FILENAME:
        out["source"] = source
    return out


_ours = {__file__, "<assay_imports>"}  # our own files that a traceback may include


def _exception_unseen(e, problem):
    """Return the result of _exception without calling the exception's own methods."""
    import traceback

    message = "<str() of the exception %s>" % problem
    lines = _guard(lambda: traceback.format_tb(_user_frames(e.__traceback__))) or ()
    line, source = _guard(_line, e) or (0, None)
    text = "Traceback (most recent call last):\n%s%s: %s\n" % ("".join(lines), _type(e), message)
    out = {"type": _type(e), "message": message, "line": line, "traceback": _cut_middle(text, MAX_TRACEBACK)}
    if source and source != FILENAME:
        out["source"] = source
    return out


def _user_frames(tb):
    """Return tb without our frames and the frames of the loop that runs the snippet."""
    while tb is not None:
        file = tb.tb_frame.f_code.co_filename
        if file not in _ours and not (file.rpartition("/")[0].endswith("/asyncio") and _leads_to_source(tb)):
            break
        tb = tb.tb_next
    at = tb
    while at is not None and at.tb_next is not None:
        if at.tb_next.tb_frame.f_code.co_filename in _ours:
            at.tb_next = at.tb_next.tb_next if _leads_to_source(at.tb_next) else None
        else:
            at = at.tb_next
    return tb


def _leads_to_source(tb):
    """Report whether one of the next frames belongs to a snippet."""
    while tb is not None and not _is_source(tb.tb_frame.f_code.co_filename):
        tb = tb.tb_next
    return tb is not None


def _is_source(filename):
    """Report whether a file name belongs to a snippet."""
    return filename == FILENAME or filename[:9] == "<snippet "


def _line(e):
    """Return the last line of a snippet in the traceback, and this snippet's name; 0 if there is none."""
    if isinstance(e, SyntaxError) and type(e.filename) is str and _is_source(e.filename):
        return e.lineno or 0, e.filename
    line, source = 0, None
    tb = e.__traceback__
    while tb is not None:
        if _is_source(tb.tb_frame.f_code.co_filename):
            line, source = tb.tb_lineno, tb.tb_frame.f_code.co_filename
        tb = tb.tb_next
    return line, source


def _traceback(e):
    import traceback

    seen = set()
    stack = [e]
    while stack:  # includes causes, contexts and the exceptions of groups, each once
        x = stack.pop()
        if x is None or id(x) in seen or len(seen) > 100:
            continue
        seen.add(id(x))
        x.__traceback__ = _user_frames(x.__traceback__)
        stack += [x.__cause__, x.__context__, *_members(x)]
    if isinstance(e, SyntaxError) and type(e.filename) is str and _is_source(e.filename) and e.__traceback__ is not None:
        # Raised by the parser for the snippet: ast's own frame is irrelevant.
        if not _is_source(e.__traceback__.tb_frame.f_code.co_filename):
            e.__traceback__ = None
    return "".join(traceback.format_exception(type(e), e, e.__traceback__))


def _members(e):
    """Return the exceptions of a group."""
    group = getattr(builtins, "BaseExceptionGroup", None)
    return e.exceptions if group and isinstance(e, group) else ()


# Output


MAX_ORDER = 2000
_order = []


def _keep_order():
    """Make the standard streams record their writes in order.

    Direct writes to the descriptors make the sums wrong, so the reader detects that the order is unknown.
    """
    import io

    del _order[:]
    for number, name in ((1, "stdout"), (2, "stderr")):
        stream = getattr(sys, name)
        if type(stream) is io.TextIOWrapper and stream.encoding.lower() in ("utf-8", "utf8"):
            stream = _noted(io.TextIOWrapper, number, stream)
            setattr(sys, name, stream)
            setattr(sys, "__%s__" % name, stream)


def _encoded():
    """Report whether the program's environment sets the encoding of its streams."""
    return "PYTHONIOENCODING" in os.environ


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

    errors = stream.errors
    noted = TextIOWrapper(stream.detach(), encoding="utf-8", errors=errors, line_buffering=True)
    noted.mode = "w"
    return noted


_fflush = None  # fflush of the C library, if ctypes is loaded


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
    """Perform the steps of the interpreter's end that a program can notice."""
    threading, atexit = sys.modules.get("threading"), sys.modules.get("atexit")
    for end in threading and threading._shutdown, atexit and atexit._run_exitfuncs, _flush, _flush_c:
        if end:
            _guard(end)


def _end_child(failed, code):
    """End a process that a snippet forked and that reached the end of the snippet. failed is the exception it raised."""
    try:
        if failed is not None:
            code = 130 if isinstance(failed, KeyboardInterrupt) else 1
            text = _exception(failed)["traceback"]
            if sys.excepthook is sys.__excepthook__:
                _print_error(text)
            else:
                code = _call_hook(failed, text, code)
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
    """Call the snippet's sys.excepthook with the exception, like the interpreter. Return the exit code."""
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
        pass  # the snippet closed it: then there is no result


if __name__ == "__main__":
    main()
