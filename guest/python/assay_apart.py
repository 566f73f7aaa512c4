"""Find actions of check code that cannot reach a solution in another process.

The analysis uses only the text of the check and runs before any use of the solution, so the solution cannot influence
it.

Standard library only, for Python 3.8 and later.
"""

import os
import re
import sys

CAPTURES = frozenset("redirect_stdout redirect_stderr captured_stdout captured_output assertLogs assertNoLogs assertWarns assertWarnsRegex".split())
READS = frozenset("getvalue read readline readlines seek".split())
TEMPORARY = frozenset("NamedTemporaryFile TemporaryDirectory TemporaryFile mkdtemp mkstemp write_text write_bytes makedirs mkdir".split())
LOOKS = frozenset("open exists isfile isdir listdir getsize remove unlink Path read_csv".split())
HINTS = re.compile(r"redirect_std|patch|captured_|assertLogs|assertNoLogs|assertWarns|catch_warnings|sys\.std|sys\.argv|tempfile|open\(|write_|mkdir|makedirs|exists|listdir|getsource|\.\w+ *= ")


def needs_one_process(code, names):
    """Return the action that needs the solution's process, as text for the check's author, or "".

    Only code that HINTS finds can need it. names are the check's names for the solution.
    """
    import ast

    try:
        return _Reader(ast, ast.parse(code.lstrip("\ufeff")), set(names)).verdict()
    except (SyntaxError, ValueError, RecursionError, AttributeError):
        return ""


class _Reader:
    def __init__(self, ast, tree, names):
        self.ast, self.tree, self.names = ast, tree, names
        self.modules, self.defined = set(), set()
        self.functions = [n for n in ast.walk(tree) if isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef))]
        for node in ast.walk(tree):
            if isinstance(node, (ast.Import, ast.ImportFrom)):
                self.modules.update((a.asname or a.name).partition(".")[0] for a in node.names)
            elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                self.defined.add(node.name)
        for f in self.functions:
            if f.name == "check" and f.args.args:
                names.add(f.args.args[0].arg)
        for _ in range(3):  # functions that call functions that call the solution
            names.update(f.name for f in self.functions if f.name != "check" and self.calls(f.body))

    def name(self, node):
        """Return the last component of the name of a called function."""
        return getattr(node, "attr", getattr(node, "id", ""))

    def calls(self, nodes):
        """Return the calls of the solution in nodes and their children."""
        ast, found = self.ast, []
        for top in nodes:
            for node in ast.walk(top):
                if isinstance(node, ast.Call):
                    func = node.func
                    while isinstance(func, (ast.Attribute, ast.Call)):
                        if isinstance(func, ast.Attribute) and isinstance(func.value, ast.Name) and func.value.id == "self" and func.attr in self.names:
                            found.append(node)
                        func = func.func if isinstance(func, ast.Call) else func.value
                    if isinstance(func, ast.Name) and func.id in self.names:
                        found.append(node)
        return found

    def verdict(self):
        ast = self.ast
        for node in ast.walk(self.tree):
            if isinstance(node, (ast.With, ast.AsyncWith)) and self.calls(node.body):
                for item in node.items:
                    why = self.surrounds(item.context_expr, item.optional_vars)
                    if why:
                        return why
            elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)) and self.calls(node.body):
                for decorator in node.decorator_list:
                    why = self.patches(decorator)
                    if why:
                        return why
            elif isinstance(node, ast.Call) and self.name(node.func) in ("getsource", "getsourcelines", "getsourcefile", "getfile"):
                if any(isinstance(a, ast.Name) and a.id in self.names for a in node.args):
                    return "it reads the source of the solution (inspect.%s)" % self.name(node.func)
        for scope in [self.tree] + self.functions:
            why = self.leaves(scope)
            if why:
                return why
        return ""

    def surrounds(self, call, target):
        """Return why a with statement around a call has no effect on the solution."""
        ast = self.ast
        if not isinstance(call, ast.Call):
            return ""
        name = self.name(call.func)
        if name in ("redirect_stdout", "redirect_stderr"):  # discarding output needs nothing
            names = {a.id for a in call.args if isinstance(a, ast.Name)} | ({target.id} if isinstance(target, ast.Name) else set())
            for node in ast.walk(self.tree):
                if isinstance(node, ast.Attribute) and node.attr in READS and isinstance(node.value, ast.Name) and node.value.id in names:
                    return "it captures the output of the solution (%s)" % name
            return ""
        if name == "catch_warnings" and call.keywords and target is not None:
            return "it captures warnings of the solution (catch_warnings)"
        if name in CAPTURES:
            return "it captures what the solution writes (%s)" % name
        return self.patches(call)

    def patches(self, call):
        """Return why a patch has no effect on the solution."""
        ast = self.ast
        if not isinstance(call, ast.Call):
            return ""
        name, func = self.name(call.func), call.func
        within = isinstance(func, ast.Attribute) and self.name(func.value) == "patch"
        first = call.args[0] if call.args else None
        if name == "patch" and isinstance(first, ast.Constant) and type(first.value) is str:
            module, _, rest = first.value.partition(".")
            if module == "__main__" and rest.partition(".")[0] in self.defined:
                return ""
            return "it patches %s around the solution" % first.value
        if within and name in ("object", "multiple"):
            root = first
            while isinstance(root, ast.Attribute):
                root = root.value
            if isinstance(root, ast.Name) and root.id in self.modules:
                return "it patches %s around the solution" % root.id
            if isinstance(first, ast.Constant) and type(first.value) is str:
                return "it patches %s around the solution" % first.value
        return ""

    def leaves(self, scope):
        """Return why a change in a function or the module before a call has no effect on the solution."""
        ast = self.ast
        body = scope.body
        if scope is self.tree:
            body = [n for n in body if not isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))]
        calls = self.calls(body)
        if not calls:
            return ""
        passed = {ast.dump(a) for c in calls for a in c.args if isinstance(a, (ast.Name, ast.Constant, ast.Attribute)) and not self.short(a)}
        for node in (n for top in body for n in ast.walk(top)):
            if isinstance(node, ast.Assign):
                for target in node.targets:
                    if isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name) and target.value.id in self.modules:
                        return "it sets %s.%s for the solution" % (target.value.id, target.attr)
            elif isinstance(node, ast.Call):
                name = self.name(node.func)
                if name in TEMPORARY or name == "open" and self.writes(node):
                    return "it makes files for the solution (%s)" % name
                if name in LOOKS and node not in calls and any(ast.dump(a) in passed for a in node.args):
                    return "it looks at files that the solution has to make (%s)" % name
        return ""

    def short(self, node):
        """Report whether an argument is a plain value other than a path."""
        return isinstance(node, self.ast.Constant) and not (type(node.value) is str and ("/" in node.value or "." in node.value))

    def writes(self, call):
        modes = call.args[1:2] + [k.value for k in call.keywords if k.arg == "mode"]
        return any(isinstance(m, self.ast.Constant) and type(m.value) is str and set(m.value) & set("wax") for m in modes)


class Shared:
    """The state that a check sets for its solution, sent with the next call: environment and random seed."""

    def __init__(self, code):
        self.environment = dict(os.environ) if "environ" in code or "putenv" in code else None
        self.seeded = False
        if "seed(" in code:
            import random

            self.watch(random)

    def watch(self, random):
        seed = random.seed

        def seeds(*args, **kwargs):
            seed(*args, **kwargs)
            self.seeded = True

        random.seed = seeds

    def changes(self):
        out = {}
        if self.environment is not None:
            now = dict(os.environ)
            if now != self.environment:
                changed = {k: v for k, v in now.items() if self.environment.get(k) != v}
                changed.update((k, None) for k in self.environment if k not in now)
                out["environment"], self.environment = changed, now
        if self.seeded:
            version, state, rest = sys.modules["random"].getstate()
            out["random"], self.seeded = [version, list(state), rest], False
        return out


def receive(said):
    """Apply the check's state at the solution's side."""
    for k, v in (said.get("environment") or {}).items():
        if v is None:
            os.environ.pop(k, None)
        else:
            os.environ[k] = v
    if "random" in said:
        import random

        version, state, rest = said["random"]
        random.setstate((version, tuple(state), rest))
