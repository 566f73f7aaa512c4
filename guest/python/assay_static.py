"""Analyse programs without running them: syntax errors, imports, undefined names, definitions.

Run as a job, whose last line calls main(programs, rules, seconds). programs is a list of objects with these keys:

- code
- given: predefined names
- allow and deny: the policy's import rules
- packages: whether the policy adds packages to this interpreter

rules is the source of the module with the rules, seconds the time limit. The output is one JSON object (see judge).

The programs are hostile. A parser may crash, hang or exhaust memory, so a separate process parses. When it dies,
another one continues after the program that killed it.

Standard library only, for Python 3.8 and later.
"""

import _ast as ast
import json
import os
import select
import signal
import struct
import sys
import time
import warnings

from assay_names import Names

FILENAME = "<job>"  # as in the harness
MAX_ITEMS = 200  # of each kind in a program
MAX_TEXT = 200  # characters of a name or other text
MEMORY = 160 << 20  # bytes above the initial size, for a program's tree
SECONDS = 5  # CPU time for one program
OVER = "the time for all programs together was over"
FRAME = struct.Struct("<I")


def main(programs, rules="", seconds=25):
    """Print the results for each program."""
    warnings.simplefilter("ignore")  # from the parser, about correct programs
    until = time.monotonic() + seconds
    answers = []
    while len(answers) < len(programs):
        if time.monotonic() >= until:
            answers += [_unjudged(OVER)] * (len(programs) - len(answers))
            break
        try:
            end = _some(programs, rules, answers, until)
        except OSError:  # no process available: parse in this process
            answers.append(_encoded(judge, programs[len(answers)], rules))
            continue
        if end:
            answers.append(_unjudged(end))
    head = json.dumps({"python": "%d.%d.%d" % sys.version_info[:3]})[:-1]
    sys.stdout.write('%s, "programs": [%s]}\n' % (head, ",\n".join(answers)))


def _some(programs, rules, answers, until):
    """Add answers from another process. Return the error of the program that ended it, or None."""
    source, sink = os.pipe()
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            os.close(source)
            _bound_memory()
            for p in programs[len(answers) :]:
                # The signal kills the parser in any state, and excludes other processes' time.
                signal.setitimer(signal.ITIMER_PROF, SECONDS)
                _send(sink, _encoded(judge, p, rules).encode())
            code = 0
        finally:
            os._exit(code)
    os.close(sink)
    try:
        end = _receive(source, answers, len(programs), until)
    finally:
        os.close(source)
        if len(answers) < len(programs):
            os.kill(pid, signal.SIGKILL)
        _, status = os.waitpid(pid, 0)
    if end or len(answers) == len(programs):
        return end
    by = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
    if by == signal.SIGPROF:
        return "it takes this python more than %d s of the processor to parse it" % SECONDS
    return "the parser of this python crashed on it" + (" (%s)" % signal.Signals(by).name if by else "")


def _receive(source, answers, total, until):
    """Add answers until all have arrived, and return None, or return why waiting was stopped."""
    data = b""
    while len(answers) < total:
        data, answer = _answer(data)
        if answer is not None:
            answers.append(answer)
            continue
        if not select.select([source], [], [], max(0, until - time.monotonic()))[0]:
            return OVER
        more = os.read(source, 1 << 20)
        if not more:
            return None
        data += more
    return None


def _answer(data):
    """Return the rest of data after its first complete answer, and the answer or None."""
    if len(data) < FRAME.size:
        return data, None
    (n,) = FRAME.unpack_from(data)
    end = FRAME.size + n
    if len(data) < end:
        return data, None
    return data[end:], data[FRAME.size : end].decode()


def _send(fd, data):
    data = FRAME.pack(len(data)) + data
    while data:
        data = data[os.write(fd, data) :]


def _bound_memory():
    """Make a tree that is too large raise MemoryError, before the kernel kills the process."""
    import gc
    import resource

    gc.disable()  # trees have no cycles
    sys.setrecursionlimit(20_000)  # for Names, which recurses as deep as the code
    try:
        with open("/proc/self/statm") as f:
            have = int(f.read().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (have + MEMORY, have + MEMORY))
    except (OSError, ValueError):
        pass


def _encoded(f, *args):
    try:
        return json.dumps(f(*args))
    except MemoryError:
        return json.dumps({"error": {"type": "MemoryError", "message": "it is nested too deeply for this python, or takes more than %d MiB to parse" % (MEMORY >> 20)}})


def _unjudged(why):
    return json.dumps({"error": {"type": "Unjudged", "message": why}})


_forbidding = {}


def _rules(program, source):
    """Return the policy's import rules, or None if there are none."""
    rules = {"allow": program.get("allow") or [], "deny": program.get("deny") or []}
    if not rules["allow"] and not rules["deny"]:
        return None
    if not _forbidding:
        made = type(sys)("_assay_rules")
        made.__file__ = "<rules>"
        exec(compile(source, made.__file__, "exec", dont_inherit=True), made.__dict__)
        _forbidding["made"] = getattr(made, "Rules", None) or made._Rules
    return _forbidding["made"](rules)


def judge(program, rules=""):
    """Return the result for one program: error or, without one, imports, undefined, functions and classes."""
    code = program["code"]
    if code[:1] == "\ufeff":  # not part of a file's text
        code = code[1:]
    try:
        compile(code, FILENAME, "exec", dont_inherit=True)  # the tree alone does not detect 'return' outside function
        tree = compile(code, FILENAME, "exec", ast.PyCF_ONLY_AST, dont_inherit=True)
    except SyntaxError as e:
        return {"error": _syntax_error(e)}
    except (ValueError, RecursionError, OverflowError) as e:
        return {"error": {"type": type(e).__name__, "message": _cut(e)}}
    seen = Seen(code.splitlines(), _rules(program, rules), bool(program.get("packages")))
    seen.statements(tree.body)
    seen.imports_in(tree)
    names = Names(program.get("given") or ())
    try:
        names.block(tree.body)
        undefined = names.undefined()
    except RecursionError:
        undefined = []
    out = {"imports": seen.imports, "undefined": undefined, "functions": seen.functions, "classes": seen.classes}
    for kind, found in out.items():
        if len(found) > MAX_ITEMS:
            out[kind] = found[:MAX_ITEMS]
            seen.truncated = True
    if seen.truncated:
        out["truncated"] = True
    return out


def _syntax_error(e):
    out = {"type": type(e).__name__, "message": _cut(e.msg), "line": e.lineno or 0, "column": e.offset or 0}
    for key, name in ("end_line", "end_lineno"), ("end_column", "end_offset"):
        if getattr(e, name, None):
            out[key] = getattr(e, name)
    if e.text:
        out["text"] = _cut(e.text.rstrip("\r\n"))
    return out


def _cut(text):
    text = str(text)
    if len(text) > MAX_TEXT:
        text = text[:MAX_TEXT] + "…"
    return text.encode("utf-8", "backslashreplace").decode()


class Seen:
    """Collects imports and definitions."""

    found = {}  # module → whether this interpreter has it

    def __init__(self, lines, rules, packages):
        self.lines = lines
        self.rules = rules
        self.packages = packages
        self.imports, self.functions, self.classes = [], [], []
        self.truncated = False

    def statements(self, body):
        """Collect definitions at the top level, including nested blocks."""
        for node in body:
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                self.functions.append(self.function(node))
            elif isinstance(node, ast.ClassDef):
                self.classes.append(self.klass(node))
            elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Lambda):
                for target in node.targets:
                    if isinstance(target, ast.Name):
                        self.functions.append({"name": _cut(target.id), "line": node.lineno, "signature": self.signature(node.value.args)})
            else:
                for inner in "body", "orelse", "finalbody":
                    self.statements(_list(node, inner))
                for handler in _list(node, "handlers"):
                    self.statements(handler.body)

    def function(self, node):
        out = {"name": _cut(node.name), "line": node.lineno, "signature": self.signature(node.args, node.returns)}
        if isinstance(node, ast.AsyncFunctionDef):
            out["async"] = True
        return out

    def klass(self, node):
        methods = [self.function(n) for n in node.body if isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef))]
        if len(methods) > MAX_ITEMS:
            methods, self.truncated = methods[:MAX_ITEMS], True
        return {"name": _cut(node.name), "line": node.lineno, "bases": [self.text(b) for b in node.bases[:MAX_ITEMS]], "methods": methods}

    def signature(self, args, returns=None):
        positional = args.posonlyargs + args.args
        defaults = [None] * (len(positional) - len(args.defaults)) + args.defaults
        parts = [self.argument(a, d) for a, d in zip(positional, defaults)]
        if args.posonlyargs:
            parts.insert(len(args.posonlyargs), "/")
        if args.vararg:
            parts.append("*" + self.argument(args.vararg))
        elif args.kwonlyargs:
            parts.append("*")
        parts += [self.argument(a, d) for a, d in zip(args.kwonlyargs, args.kw_defaults)]
        if args.kwarg:
            parts.append("**" + self.argument(args.kwarg))
        text = "(%s)" % ", ".join(parts)
        return _cut(text + " -> " + self.text(returns) if returns else text)

    def argument(self, a, default=None):
        text = a.arg
        if a.annotation:
            text += ": " + self.text(a.annotation)
        if default is not None:
            text += (" = " if a.annotation else "=") + self.text(default)
        return text

    def text(self, node):
        """Return the source of an expression."""
        first, last = node.lineno - 1, node.end_lineno - 1
        if last >= len(self.lines):  # a form feed, which splitlines() treats as the end of a line
            return "…"
        part = [line.encode("utf-8", "surrogatepass") for line in self.lines[first : last + 1]]
        part[-1] = part[-1][: node.end_col_offset]
        part[0] = part[0][node.col_offset :]
        return _cut(b" ".join(p.strip() for p in part).decode("utf-8", "replace"))

    def imports_in(self, tree):
        """Collect every visible import, including calls of import functions, in line order."""
        todo = [tree]
        while todo:
            node = todo.pop()
            if isinstance(node, ast.Import):
                for a in node.names:
                    self.add(node, a.name, [], [a.name])
            elif isinstance(node, ast.ImportFrom):
                module = "." * (node.level or 0) + (node.module or "")
                names = [a.name for a in node.names]
                asked = [] if node.level or module == "__future__" else [module + "." + n for n in names]
                self.add(node, module, names, asked)
            elif isinstance(node, ast.Call):
                name = _called(node)
                if name:
                    self.add(node, name, [], [name])
            for field in node._fields:
                value = getattr(node, field, None)
                todo.extend(v for v in (value if isinstance(value, list) else [value]) if isinstance(v, ast.AST))
        self.imports.sort(key=lambda i: i["line"])

    def add(self, node, module, names, asked):
        out = {"module": _cut(module), "line": node.lineno}
        if names:
            out["names"] = [_cut(n) for n in names[:MAX_ITEMS]]
        if self.rules and any(self.rules.forbid(n) for n in asked):
            out["forbidden"] = True
        found = self.has(module)
        if found or not self.packages:  # otherwise the packages may contain it
            out["found"] = found
        self.imports.append(out)

    def has(self, module):
        """Report whether this interpreter has the top-level module of an import."""
        top = module.partition(".")[0]
        if not top:
            return False  # a program belongs to no package
        if top not in self.found:
            self.found[top] = _find(top)
        return self.found[top]


def _find(top):
    if top in sys.builtin_module_names or top in getattr(sys, "stdlib_module_names", ()):
        return True
    import importlib.util

    try:
        return importlib.util.find_spec(top) is not None
    except Exception:
        return top in sys.modules


def _called(node):
    """Return the module that a call imports by a literal name, or None."""
    called = getattr(node.func, "id", None) or getattr(node.func, "attr", None)
    if called not in ("__import__", "import_module") or not node.args or not isinstance(node.args[0], ast.Constant):
        return None
    name = node.args[0].value
    return name if isinstance(name, str) and name[:1] not in (".", "") else None


def _list(node, field):
    value = getattr(node, field, None)
    return value if isinstance(value, list) else []
