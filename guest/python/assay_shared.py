"""The side of a graded solution that shares a process with its check.

shared(fd) runs setup, solution and check in one module, like the test harnesses of some benchmarks. The solution can
do anything to the check, so no report from this process can be trusted. The worker marks the result as forgeable.

Standard library only, for Python 3.8 and later.
"""

import _ast
import importlib.util
import sys
import time

from assay_check import CHECK, Check, _sanitized, serve
from assay_code import compile_code, line_in, new_module, without_mark
from assay_imports import Rules
from assay_solution import SOLUTION, Solution
from assay_wire import cut, type_name


class Shared(Check):
    def run(self, m):
        self.code, self.setup = m["check"], m.get("setup") or ""
        self.end = time.monotonic() + m["wall"]
        module = new_module("__main__")
        names = module.__dict__
        for alias in "solution", "__test__":  # a check may patch names of either
            sys.modules[alias] = module
        stage = "setup"
        try:
            exec(compile_code(self.setup, "<setup>"), names)
            stage = "check"
            compile_code(self.code, CHECK)
            self.find_imports()
        except BaseException as e:
            return self.report("check", 0, e, stage)
        self.calls, self.asked = 1, True
        failed = self.load(m, names)
        if failed:
            self.channel.send(failed)
        else:
            self.run_tests(names)

    def find_imports(self):
        """Raise ModuleNotFoundError if a module that the check imports is not installed."""
        import ast

        for node in ast.parse(without_mark(self.code)).body:
            found = []
            if isinstance(node, ast.Import):
                found = [a.name for a in node.names]
            elif isinstance(node, ast.ImportFrom) and not node.level:
                found = [node.module]
            for name in found:
                first = name.partition(".")[0]
                if first not in sys.modules and importlib.util.find_spec(first) is None:
                    raise ModuleNotFoundError("No module named %r" % first, name=first)

    def load(self, m, names):
        """Run the solution. Return a frame with the reason of a failure, or None."""
        side = self.solution = Solution()
        side.begin_at(self.channel.fd)
        side.code, stage = m["code"], "load"
        rules = m.get("imports") and Rules(m["imports"], {"<setup>": sys.maxsize, CHECK: sys.maxsize})
        try:
            if rules:
                broken = rules.broken(compile(without_mark(side.code), SOLUTION, "exec", _ast.PyCF_ONLY_AST, dont_inherit=True))
                if broken:
                    return {"op": "unloaded", "stage": "imports", "problem": broken}
                names["__builtins__"] = rules.builtins()
            names["__name__"] = "solution"  # it is imported, not run
            exec(compile_code(side.code, SOLUTION), names)
            stage = "function"
            if m.get("function"):
                names["candidate"] = side.find(names, m["function"])[0]
        except BaseException as e:
            return {"op": "unloaded", "stage": stage, "exception": side.exception(e)}
        finally:
            names["__name__"] = "__main__"
        return None

    def describe(self, e, stage):
        out = Check.describe(self, e, stage)
        if stage == "check" and self.raised_by_solution(e):
            out["by_solution"], out["exception"], out["call"] = True, _sanitized(self.solution.exception(e)), ""
            out["message"], out["type"] = cut(str(e), 500), type_name(type(e))
        return out

    def raised_by_solution(self, e):
        """Report whether e was raised in the solution's code, rather than in check code that it had called."""
        files = []
        tb = e.__traceback__
        while tb is not None:
            files.append(tb.tb_frame.f_code.co_filename)
            tb = tb.tb_next
        ours = [f for f in files if f in (SOLUTION, CHECK)]
        return self.asked and bool(ours) and ours[-1] == SOLUTION and line_in(e, SOLUTION) > 0

    def own(self, e):
        return not self.asked

    def skip(self, reason):
        return None, cut(str(reason), 200) or "skipped"


def shared(fd):
    """Run one check in the process of its solution, report its verdicts, and end."""
    side = Shared()
    side.begin_at(fd)
    serve(side)
