"""Rules for the imports of a snippet: policy.imports.

Visible imports are checked before the code runs (broken). Other imports are checked when they happen (builtins).

Standard library only, for Python 3.8 and later. This is not a security boundary: the code shares the process.
"""

import _ast as ast  # the module ast adds much that we do not need
import builtins
import sys


class Rules:
    """The modules that the snippet may import. Their own imports are not restricted.

    This informs honest code; there are a hundred ways around it.

    exempt maps files to their last exempt line, for code that shares the snippet's names, such as a solution's setup.
    """

    def __init__(self, rules, exempt=None):
        self.allow = rules.get("allow") or ()
        self.deny = rules.get("deny") or ()
        self.only = bool(self.allow) or "*" in self.deny  # modules outside allow are forbidden
        self.exempt = exempt or {}

    def forbid(self, name):
        """Report whether the module name, or a parent of it, is forbidden."""

        def listed(rules):
            return any(name == r or name.startswith(r + ".") for r in rules)

        return listed(self.deny) or self.only and not listed(self.allow)

    def broken(self, tree, file=None):
        """Return the first visible forbidden import in tree as text, or None."""
        found, before = None, self.exempt.get(file, 0)
        todo = [tree]
        while todo:
            node = todo.pop()
            for name in self._imports(node):
                if self.forbid(name) and node.lineno > before and (found is None or node.lineno - before < found[0]):
                    found = node.lineno - before, name[:200]
            for field in node._fields:
                value = getattr(node, field, None)
                todo.extend(v for v in (value if isinstance(value, list) else [value]) if isinstance(v, ast.AST))
        return found and "line %d: import of %s" % found

    def _imports(self, node):
        if isinstance(node, ast.Import):
            return [a.name for a in node.names]
        if isinstance(node, ast.ImportFrom) and not node.level and node.module != "__future__":
            inner = [node.module + "." + a.name for a in node.names]
            forbidden = [n for n in inner if self.forbid(n)]
            return [node.module] if forbidden == inner and self.forbid(node.module) else forbidden
        if isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
            called = getattr(node.func, "id", None) or getattr(node.func, "attr", None)
            name = node.args[0].value
            if called in ("__import__", "import_module") and isinstance(name, str) and name[:1] != ".":
                return [name]
        return []

    def builtins(self):
        """Return the snippet's builtins, with an import function that checks the rules."""
        original = builtins.__import__

        def __import__(name, globals=None, locals=None, fromlist=(), level=0):
            names = [name] + ["%s.%s" % (name, f) for f in fromlist or ()]
            # C code imports with its caller's globals and an empty list.
            own = fromlist == [] and globals is not None and globals is locals
            if not level and name != "__future__" and not own:
                self.ask(name, names[1:] or names, sys._getframe(1))
            return original(name, globals, locals, fromlist, level)

        __import__.ask = self.ask
        _guard_importlib()
        return dict(builtins.__dict__, __import__=__import__)

    def ask(self, name, names, frame):
        """Raise ImportError for name if code in frame may not import one of names."""
        if any(self.forbid(n) for n in names) and frame.f_lineno > self.exempt.get(frame.f_code.co_filename, 0):
            raise ImportError("import of %s is forbidden by policy.imports" % name)


def _guard_importlib():
    """Make the functions of importlib check the rules for calls from restricted snippets.

    Such a snippet is identified by its builtins; modules that it imported have the usual ones.
    """
    import importlib

    original = importlib.import_module
    if hasattr(original, "guarded"):
        return

    def asks(frame):
        return getattr(frame.f_builtins.get("__import__"), "ask", None)

    def import_module(name, package=None):
        frame = sys._getframe(1)
        ask = asks(frame)
        if ask and isinstance(name, str):
            absolute = name.lstrip(".")
            if package and absolute != name:
                absolute = package.rsplit(".", len(name) - len(absolute) - 1)[0] + "." + absolute
            ask(name, [absolute], frame)
        return original(name, package)

    def __import__(name, globals=None, locals=None, fromlist=(), level=0):
        frame = sys._getframe(1)
        ask = asks(frame)
        if ask and not level and isinstance(name, str):
            ask(name, ["%s.%s" % (name, f) for f in fromlist or ()] or [name], frame)
        return plain(name, globals, locals, fromlist, level)

    plain, import_module.guarded = importlib.__import__, True
    importlib.import_module, importlib.__import__ = import_module, __import__


def run_script(path, rules, exempt):
    """Run a file like the interpreter, but under rules after the line exempt.

    It must be the last call in this interpreter.
    """
    with open(path, "rb") as f:
        source = f.read()
    rules = Rules(rules, {path: exempt})
    main = sys.modules["__main__"] = type(sys)("__main__")
    main.__file__, main.__builtins__ = path, builtins
    sys.argv, sys.path[0] = [path], path.rpartition("/")[0]
    try:
        tree = compile(source, path, "exec", ast.PyCF_ONLY_AST, dont_inherit=True)
        broken = rules.broken(tree, path)
        if broken:
            sys.exit("policy.imports: " + broken)
        main.__builtins__ = rules.builtins()
        exec(compile(tree, path, "exec", dont_inherit=True), main.__dict__)
    except Exception as e:
        sys.excepthook(type(e), e, e.__traceback__.tb_next)
        sys.exit(1)
