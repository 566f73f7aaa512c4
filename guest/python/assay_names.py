"""Find names that a program reads and never binds.

A part of assay_static.py, placed above it in a combined text.

Standard library only, for Python 3.8 and later.
"""

import _ast as ast
import builtins

MAX_NAME = 200  # characters

# Names in every module, besides builtins.
MODULE_NAMES = {"__name__", "__file__", "__doc__", "__package__", "__spec__", "__loader__", "__builtins__", "__annotations__", "__path__"}
DUNDERS_OF_CLASSES = {"__module__", "__qualname__", "__name__"}


class Scope:
    def __init__(self, kind, parent=None):
        self.kind = kind  # module, function, class or comprehension
        self.parent = parent
        self.bound = set()
        self.outer = {}  # names of other scopes, by global and nonlocal
        self.uses = {}  # name → place of the first read


class Names:
    """Finds names that are read but never bound in any visible scope.

    Names that are bound later, in one branch only, or deleted count as bound. So every finding is an error in any
    case. After "from x import *" nothing is certain.
    """

    def __init__(self, given=()):
        self.module = self.scope = Scope("module")
        self.module.bound.update(given)
        self.scopes = [self.module]
        self.star = False
        self.caught = 0  # number of enclosing try blocks that catch NameError

    def undefined(self):
        if self.star:
            return []
        first = {}
        for scope in self.scopes:
            for name, place in scope.uses.items():
                if not self.known(scope, name) and (name not in first or place < first[name]):
                    first[name] = place
        found = sorted((place, name) for name, place in first.items())
        return [{"name": name[:MAX_NAME], "line": line, "column": column} for (line, column), name in found]

    def known(self, scope, name):
        at = scope
        while at is not None:
            if at.outer.get(name) == "global":
                break
            if name in at.bound and name not in at.outer and (at is scope or at.kind != "class"):
                return True
            if at.kind == "class" and (name == "__class__" or at is scope and name in DUNDERS_OF_CLASSES):
                return True
            at = at.parent
        return name in self.module.bound or name in MODULE_NAMES or hasattr(builtins, name)

    def bind(self, name):
        scope = self.scope
        if scope.outer.get(name) == "global":
            scope = self.module
        scope.bound.add(name)

    def use(self, node):
        if not self.caught and node.id not in self.scope.uses:
            self.scope.uses[node.id] = (node.lineno, node.col_offset + 1)

    def block(self, nodes):
        for node in nodes:
            self.visit(node)

    def visit(self, node):
        if node is None:
            return
        special = getattr(self, "visit_" + type(node).__name__, None)
        if special:
            special(node)
        else:
            self.children(node)

    def children(self, node):
        for field in node._fields:
            value = getattr(node, field, None)
            for v in value if isinstance(value, list) else [value]:
                if isinstance(v, ast.AST):
                    self.visit(v)

    def inside(self, kind, work):
        """Run work in a new scope."""
        outer, self.scope = self.scope, Scope(kind, self.scope)
        caught, self.caught = self.caught, self.caught if kind == "comprehension" else 0
        self.scopes.append(self.scope)
        work()
        self.scope, self.caught = outer, caught

    def visit_Name(self, node):
        if isinstance(node.ctx, ast.Load):
            self.use(node)
        else:
            self.bind(node.id)

    def visit_FunctionDef(self, node):
        self.bind(node.name)
        self.block(node.decorator_list)
        self.block(node.args.defaults + node.args.kw_defaults)
        self.typed(node, lambda: self.defined(node))

    visit_AsyncFunctionDef = visit_FunctionDef

    def defined(self, node):
        for a in _arguments(node.args):
            self.visit(a.annotation)
        self.visit(node.returns)
        self.inside("function", lambda: self.body(node.args, node.body))

    def visit_Lambda(self, node):
        self.block(node.args.defaults + node.args.kw_defaults)
        self.inside("function", lambda: self.body(node.args, [node.body]))

    def body(self, args, nodes):
        for a in _arguments(args):
            self.bind(a.arg)
        self.block(nodes)

    def visit_ClassDef(self, node):
        self.bind(node.name)
        self.block(node.decorator_list)

        def work():
            self.block(node.bases + node.keywords)
            self.inside("class", lambda: self.block(node.body))

        self.typed(node, work)

    def typed(self, node, work):
        """Run work in a scope with a definition's type parameters."""
        parameters = getattr(node, "type_params", None)
        if not parameters:
            work()
            return

        def inner():
            self.block(parameters)
            work()

        self.inside("function", inner)

    def visit_TypeAlias(self, node):
        self.visit(node.name)
        self.typed(node, lambda: self.visit(node.value))

    def visit_TypeVar(self, node):
        self.bind(node.name)
        self.children(node)

    visit_ParamSpec = visit_TypeVarTuple = visit_TypeVar

    def visit_comprehension_expression(self, node):
        self.visit(node.generators[0].iter)

        def work():
            for i, g in enumerate(node.generators):
                if i:
                    self.visit(g.iter)
                self.visit(g.target)
                self.block(g.ifs)
            for field in "elt", "key", "value":
                self.visit(getattr(node, field, None))

        self.inside("comprehension", work)

    visit_ListComp = visit_SetComp = visit_DictComp = visit_GeneratorExp = visit_comprehension_expression

    def visit_NamedExpr(self, node):
        self.visit(node.value)
        scope = self.scope
        while scope.kind == "comprehension":
            scope = scope.parent
        self.scope, was = scope, self.scope
        self.bind(node.target.id)
        self.scope = was

    def visit_Import(self, node):
        for a in node.names:
            self.bind(a.asname or a.name.partition(".")[0])

    def visit_ImportFrom(self, node):
        for a in node.names:
            self.star = self.star or a.name == "*"
            self.bind(a.asname or a.name)

    def visit_Global(self, node):
        for name in node.names:
            self.scope.outer[name] = "global"
            self.module.bound.add(name)  # a global statement implies a binding

    def visit_Nonlocal(self, node):
        for name in node.names:
            self.scope.outer[name] = "nonlocal"

    def visit_ExceptHandler(self, node):
        if node.name:
            self.bind(node.name)
        self.children(node)

    def visit_Try(self, node):
        catches = any(_catches_name_errors(h.type) for h in node.handlers)
        self.caught += catches
        self.block(node.body)
        self.caught -= catches
        self.block(node.handlers + node.orelse + node.finalbody)

    visit_TryStar = visit_Try

    def visit_MatchAs(self, node):
        if node.name:
            self.bind(node.name)
        self.children(node)

    visit_MatchStar = visit_MatchAs

    def visit_MatchMapping(self, node):
        if node.rest:
            self.bind(node.rest)
        self.children(node)


def _arguments(args):
    return args.posonlyargs + args.args + args.kwonlyargs + [a for a in (args.vararg, args.kwarg) if a]


def _catches_name_errors(kind):
    if kind is None:
        return True
    kinds = kind.elts if isinstance(kind, ast.Tuple) else [kind]
    return any(getattr(k, "id", "") in ("NameError", "Exception", "BaseException") for k in kinds)
