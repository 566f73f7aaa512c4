"""Rules for what a snippet imports: policy.imports.

What can be seen in the code is looked for before it runs (broken), and what cannot
asks when it is imported (builtins).

Standard library only, for Python 3.8 and later. Nothing here is a wall: the code
that it is about shares the process.
"""

import _ast as ast  # the module ast is this and much that we do not need
import builtins
import sys


class Rules:
    """Which modules the snippet may import. What these import is their own affair.

    This is for honest code that shall be told: there are a hundred ways around it.
    """

    def __init__(self, rules):
        self.allow = rules.get("allow") or ()
        self.deny = rules.get("deny") or ()

    def forbid(self, name):
        """Whether the module name, or one that it is part of, may not be imported."""

        def listed(rules):
            return any(name == r or name.startswith(r + ".") for r in rules)

        return listed(self.deny) or bool(self.allow) and not listed(self.allow)

    def broken(self, tree):
        """The first import in tree that can be seen to be forbidden, as text; None if there is none."""
        todo = [tree]
        while todo:
            node = todo.pop()
            for name in self._imports(node):
                if self.forbid(name):
                    return "line %d: import of %s" % (node.lineno, name[:200])
            for field in node._fields:
                value = getattr(node, field, None)
                todo.extend(v for v in (value if isinstance(value, list) else [value]) if isinstance(v, ast.AST))
        return None

    def _imports(self, node):
        if isinstance(node, ast.Import):
            return [a.name for a in node.names]
        if isinstance(node, ast.ImportFrom) and not node.level and node.module != "__future__":
            inner = [node.module + "." + a.name for a in node.names]
            return [node.module] if self.forbid(node.module) and not self.allow else [n for n in inner if self.forbid(n)]
        if isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
            called = getattr(node.func, "id", None) or getattr(node.func, "attr", None)
            name = node.args[0].value
            if called in ("__import__", "import_module") and isinstance(name, str) and name[:1] != ".":
                return [name]
        return []

    def builtins(self):
        """The names that the snippet finds everywhere, with an import that asks first."""
        original = builtins.__import__

        def __import__(name, globals=None, locals=None, fromlist=(), level=0):
            names = [name] + ["%s.%s" % (name, f) for f in fromlist or ()]
            if not level and name != "__future__":
                self.ask(name, names[1:] or names)
            return original(name, globals, locals, fromlist, level)

        __import__.ask = self.ask
        _guard_importlib()
        return dict(builtins.__dict__, __import__=__import__)

    def ask(self, name, names):
        """Raise ImportError for name if one of names may not be imported."""
        if any(self.forbid(n) for n in names):
            raise ImportError("import of %s is forbidden by policy.imports" % name)


def _guard_importlib():
    """Have the functions of importlib ask, too, when a snippet under rules calls them.

    Such a snippet is known by its builtins: modules that it imported have the usual ones.
    """
    import importlib

    original = importlib.import_module
    if hasattr(original, "guarded"):
        return

    def guard():
        return sys._getframe(2).f_builtins.get("__import__")

    def import_module(name, package=None):
        ask = getattr(guard(), "ask", None)
        if ask and isinstance(name, str):
            absolute = name.lstrip(".")
            if package and absolute != name:
                absolute = package.rsplit(".", len(name) - len(absolute) - 1)[0] + "." + absolute
            ask(name, [absolute])
        return original(name, package)

    def __import__(*args, **kw):
        asks = guard()
        return (asks if hasattr(asks, "ask") else plain)(*args, **kw)

    plain, import_module.guarded = importlib.__import__, True
    importlib.import_module, importlib.__import__ = import_module, __import__
