"""Decide whether a test has failed by itself: by an error of the check that no solution could avoid.

A wrong solution must not be able to end its test like this, because it would be excused: no score instead of a bad
one. So there are only two criteria. Every other failure is the solution's.

untouched: the check had received nothing from the solution before it failed.

unavoidable: the check uses an undefined name at a place that every run of the test reaches unless it fails earlier.
The text of the check proves this: a passing test would have to evaluate it.

Standard library only, for Python 3.8 and later.
"""

import errno

# Errors that a lack of resources may cause, perhaps through the solution or the host.
SCARCE = (errno.ENOMEM, errno.EAGAIN, errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE, errno.EIO, errno.EINTR, errno.ETIMEDOUT)

# Names with which a check may define names invisibly, or end a test early and pass it.
ELSEWHERE = frozenset(
    "exec eval globals locals vars setattr delattr builtins __builtins__ __dict__ __import__ import_module modules f_globals "
    "exit quit _exit SystemExit main".split()
)


def untouched(e):
    """Report whether an exception is the check's own if the check has not used the solution yet."""
    if isinstance(e, OSError):
        return e.errno is not None and e.errno not in SCARCE
    return isinstance(e, (Exception, SystemExit)) and not isinstance(e, (MemoryError, TimeoutError))


def unavoidable(e, sources):
    """Report whether an exception is an unavoidable NameError: no file of sources (texts by name) defines the name,
    and every run reaches the place.
    """
    name = _undefined(e)
    frames = _frames(e.__traceback__, sources)
    if not name or not frames:
        return False
    try:
        return _Text(sources).stops(name, frames)
    except (SyntaxError, ValueError, RecursionError, MemoryError, AttributeError):
        return False


def _undefined(e):
    text = e.args[0] if type(e) is NameError and len(e.args) == 1 else ""
    if type(text) is str and text[:6] == "name '" and text[6:].partition("'")[2] == " is not defined":
        return text[6:].partition("'")[0]
    return ""


def _frames(tb, sources):
    """Return the code and line of each frame from the test on, or an empty list if a frame is outside the sources."""
    frames = []
    while tb is not None:
        code = tb.tb_frame.f_code
        if code.co_filename in sources:
            frames.append((code, tb.tb_lineno))
        elif frames:
            return []
        tb = tb.tb_next
    return frames


class _Text:
    """The text of a check and its setup."""

    def __init__(self, sources):
        import ast

        self.ast = ast
        self.trees = {file: ast.parse(text) for file, text in sources.items()}
        self.bound = {}  # number of bindings by name
        self.hidden = False
        for tree in self.trees.values():
            for node in ast.walk(tree):
                self._note(node)

    def _note(self, node):
        ast = self.ast
        names = []
        if isinstance(node, ast.Name):
            self.hidden = self.hidden or node.id in ELSEWHERE
            if not isinstance(node.ctx, ast.Load):
                names.append(node.id)
        elif isinstance(node, ast.Attribute):
            self.hidden = self.hidden or node.attr in ELSEWHERE
        elif isinstance(node, (ast.Global, ast.Nonlocal)):
            names += node.names
        else:  # definitions, arguments, imports, handlers, patterns
            names += [v for v in (getattr(node, k, None) for k in ("name", "asname", "rest", "arg")) if type(v) is str]
        for name in names:
            name = name.partition(".")[0]
            self.hidden = self.hidden or name == "*" or name in ELSEWHERE
            self.bound[name] = self.bound.get(name, 0) + 1

    def stops(self, name, frames):
        if self.hidden or name in self.bound:
            return False
        callee = None
        for code, line in reversed(frames):
            scope = self._scope(code, code is frames[0][0])
            found = scope and self._certain(scope, line)
            if not found or not self._uses(found, name, callee):
                return False
            callee = code.co_name
        return True

    def _scope(self, code, first):
        """Return the scope of the code: the module, or a function with a single definition."""
        ast, tree = self.ast, self.trees[code.co_filename]
        if code.co_name == "<module>":
            return tree
        found = tree.body if self.bound.get(code.co_name) == 1 else []
        if first:  # it may be a test method
            classes = [n for n in tree.body if isinstance(n, ast.ClassDef) and not n.decorator_list and self.bound[n.name] == 1]
            found = found + [n for c in classes for n in c.body]
        for n in found:
            if isinstance(n, ast.FunctionDef) and n.name == code.co_name and n.lineno == code.co_firstlineno and not n.decorator_list:
                return n
        return None

    def _certain(self, scope, line):
        """Return the node at this line that is evaluated completely, if every run of scope that does not fail reaches
        it.
        """
        ast = self.ast
        found = self._statement(scope.body, line)
        if found is None:
            return None
        for node in self._own(scope):
            if isinstance(node, (ast.Yield, ast.YieldFrom, ast.Await)):
                return None
            if isinstance(node, (ast.Return, ast.Break, ast.Continue)) and node.lineno < found.lineno:
                return None
        if isinstance(found, ast.Assert):
            found = found.test
        branches = ast.BoolOp, ast.IfExp, ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp, ast.NamedExpr
        for node in ast.walk(found):
            if isinstance(node, branches) or isinstance(node, ast.Compare) and len(node.ops) > 1:
                return None
        return found

    def _statement(self, body, line):
        ast = self.ast
        hit = [n for n in body if n.lineno <= line <= n.end_lineno]
        if len(hit) != 1:
            return None
        node = hit[0]
        if isinstance(node, ast.For):
            if line < node.body[0].lineno:
                return node.iter
            return self._statement(node.body, line) if self._some(node.iter) else None
        return node if isinstance(node, (ast.Expr, ast.Assign, ast.AugAssign, ast.Assert, ast.Return)) else None

    def _some(self, node):
        """Report whether the iterable of a loop has an element for any solution."""
        ast = self.ast
        if isinstance(node, (ast.List, ast.Tuple, ast.Set)):
            return any(not isinstance(n, ast.Starred) for n in node.elts)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "range" and "range" not in self.bound:
            if node.args and not node.keywords and all(isinstance(n, ast.Constant) and type(n.value) is int for n in node.args):
                return len(range(*[n.value for n in node.args])) > 0
        return False

    def _own(self, scope):
        """Yield the nodes of scope without nested scopes."""
        ast = self.ast
        todo = list(scope.body)
        while todo:
            node = todo.pop()
            yield node
            if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)):
                todo.extend(ast.iter_child_nodes(node))

    def _uses(self, node, name, callee):
        """Report whether node looks up name or, in an outer frame, calls callee by its own name."""
        ast = self.ast
        for n in ast.walk(node):
            if callee is None and isinstance(n, ast.Name) and n.id == name:
                return True
            if callee is not None and isinstance(n, ast.Call) and isinstance(n.func, ast.Name) and n.func.id == callee:
                return True
        return False
