"""Tests of the static analysis: python3 -m unittest, in this directory."""

import io
import json
import os
import sys
import time
import unittest

import assay_static
from assay_names import Names

HERE = os.path.dirname(os.path.abspath(__file__))
with open(os.path.join(HERE, "assay_imports.py")) as f:
    RULES = f.read()


def judge(code, **program):
    return assay_static.judge(dict(program, code=code), RULES)


def undefined(code, **program):
    return [u["name"] for u in judge(code, **program)["undefined"]]


class SyntaxErrors(unittest.TestCase):
    """Syntax errors as this Python reports them."""

    def test_are_those_of_the_compiler(self):
        for code in ("def f(:\n", "x = = 1", "return 1", "break", "def f():\n  nonlocal x", "  x", "if 1:\n\tx\n        y", "(", "'", "f(a=1, a=2)", "é = (", "x\n\n\ny z"):
            with self.subTest(code):
                try:
                    compile(code, "<job>", "exec")
                    self.fail("it is right")
                except SyntaxError as e:
                    got = judge(code)["error"]
                    self.assertEqual((got["type"], got["message"], got["line"], got["column"]), (type(e).__name__, e.msg, e.lineno, e.offset))

    def test_of_what_cannot_be_read(self):
        self.assertIn("null", judge("a\0b")["error"]["message"])
        self.assertEqual(judge("\ud800")["error"]["type"], "UnicodeEncodeError")
        self.assertIn("parentheses", judge("(" * 100_000)["error"]["message"])

    def test_a_mark_and_a_cookie_are_no_errors(self):
        for code in "\ufeffx = 1", "# coding: nonsense\nx = 1", "", "\r\n", "# only", "x = 1\f\ny = 2":
            with self.subTest(code):
                self.assertNotIn("error", judge(code))


class Undefined(unittest.TestCase):
    def test_names_that_nothing_binds(self):
        for code, want in (
            ("print(x)", ["x"]),
            ("def f():\n  return g()\n", ["g"]),
            ("x = y = z", ["z"]),
            ("[a for b in c]", ["a", "c"]),
            ("[b for b in range(3)]\nb", ["b"]),
            ("class C:\n  x = 1\n  def f(self): return x\n", ["x"]),
            ("class C:\n  x = 1\n  y = [x for _ in z]\n", ["x", "z"]),
            ("def f(a=d): pass", ["d"]),
            ("def f(a: T) -> R: pass", ["R", "T"]),
            ("@deco\nclass C(Base): pass", ["Base", "deco"]),
            ("lambda q: q + r", ["r"]),
            ("def f():\n  x = 1\ndef g():\n  return x\n", ["x"]),
            ("try:\n  unicode\nexcept KeyError:\n  pass\n", ["unicode"]),
            ("try:\n  f()\nexcept NameError:\n  g()\n", ["g"]),
        ):
            with self.subTest(code):
                self.assertEqual(sorted(undefined(code)), want)

    def test_names_that_something_binds(self):
        for code in (
            "x = 1\nprint(x, __name__, __file__)",
            "def f():\n  return g()\ndef g():\n  return 1\n",
            "import os.path, sys as s\nos, s",
            "from a import b as c\nc",
            "from a import *\nanything",
            "for i in range(3):\n  pass\nprint(i)",
            "with open('f') as h, open('g') as (j, k):\n  print(h, j, k)",
            "try:\n  pass\nexcept ValueError as e:\n  print(e)\n",
            "try:\n  unicode\nexcept NameError:\n  unicode = str\n",
            "def f(a, /, b, *c, d, **e):\n  return a, b, c, d, e\n",
            "def f():\n  global k\n  k = 1\nprint(k)",
            "def f():\n  n = 0\n  def g():\n    nonlocal n\n    n += 1\n    return n\n  return g\n",
            "class C:\n  x = 1\n  y = x\n  def f(self): return __class__\n  print(__qualname__)\n",
            "print([y := 1, y ** 2])\nprint(y)",
            "print([z for w in range(3) if (z := w)], z)",
            "def f():\n  return [a + b for a in range(3) for b in range(a)]\n",
            "x: int = 3\nprint(x)",
            "if 0:\n  q = 1\nprint(q)",
            "del_ = 1\ndel del_\ndel_",
        ):
            with self.subTest(code):
                self.assertEqual(undefined(code), [])

    @unittest.skipIf(sys.version_info < (3, 10), "its grammar has no match")
    def test_patterns_bind(self):
        self.assertEqual(undefined("match [1]:\n  case [a, *b]: print(a, b)\n  case {'k': v, **r}: print(v, r)\n  case int() as i: print(i)\n  case D(): pass"), ["D"])

    @unittest.skipIf(sys.version_info < (3, 12), "its grammar has no parameters of types")
    def test_parameters_of_types_bind(self):
        self.assertEqual(undefined("def f[T](x: T) -> T: return x\nclass C[U](list[U]): pass\ntype A[V] = list[V]\nT"), ["T"])

    def test_given_names_are_bound(self):
        self.assertEqual(undefined("print(x, y)", given=["x"]), ["y"])

    def test_where(self):
        self.assertEqual(judge("x = 1\nif x:\n    yy(x)\nyy")["undefined"], [{"name": "yy", "line": 3, "column": 5}])

    def test_this_repository_has_none(self):
        for name in sorted(os.listdir(HERE)):
            if name.endswith(".py"):
                with self.subTest(name), open(os.path.join(HERE, name)) as f:
                    self.assertEqual(undefined(f.read()), [])


class Imports(unittest.TestCase):
    def test_are_all_seen(self):
        code = "import os, json as j\nfrom os import path\ndef f():\n  import no_such_module.inner\nx = __import__('re')\nimportlib.import_module('csv')\nfrom . import y\n"
        got = [(i["module"], i["line"], i["found"]) for i in judge(code)["imports"]]
        self.assertEqual(got, [("os", 1, True), ("json", 1, True), ("os", 2, True), ("no_such_module.inner", 4, False), ("re", 5, True), ("csv", 6, True), (".", 7, False)])

    def test_rules_are_those_of_the_harness(self):
        def forbidden(code, **rules):
            return [i["module"] for i in judge(code, **rules)["imports"] if i.get("forbidden")]

        self.assertEqual(forbidden("import os\nimport os.path\nimport osx\nfrom os import path", deny=["os"]), ["os", "os.path", "os"])
        self.assertEqual(forbidden("from os import path\nfrom os import getcwd", deny=["os.path"]), ["os"])
        self.assertEqual(forbidden("from __future__ import annotations\nimport math, re", allow=["math"]), ["re"])
        self.assertEqual(forbidden("__import__('os')", deny=["os"]), ["os"])
        self.assertEqual(forbidden("import os"), [])

    def test_packages_may_bring_what_is_not_there(self):
        self.assertNotIn("found", judge("import no_such_module", packages=True)["imports"][0])
        self.assertTrue(judge("import os", packages=True)["imports"][0]["found"])


class Definitions(unittest.TestCase):
    def test_have_signatures(self):
        code = (
            "def f(a, b: int = 2, *c, d=(1,\n 2), **e) -> 'x': pass\nasync def g(): pass\n"
            "if 1:\n  def h(p, /, q, *, r): pass\nk = lambda n=3: n\nclass C(list, metaclass=M):\n  def m(self, é='ü'): pass\n  x = 1\n"
        )
        got = judge(code)
        self.assertEqual([(f["name"], f["signature"]) for f in got["functions"]],
                         [("f", "(a, b: int = 2, *c, d=(1, 2), **e) -> 'x'"), ("g", "()"), ("h", "(p, /, q, *, r)"), ("k", "(n=3)")])  # fmt: skip
        self.assertTrue(got["functions"][1]["async"])
        self.assertEqual(got["classes"], [{"name": "C", "line": 7, "bases": ["list"], "methods": [{"name": "m", "line": 8, "signature": "(self, é='ü')"}]}])

    def test_are_bounded(self):
        got = judge("".join("def f%d(%s): pass\n" % (i, "x" * 1000) for i in range(1000)))
        self.assertEqual(len(got["functions"]), assay_static.MAX_ITEMS)
        self.assertTrue(got["truncated"])
        self.assertLess(len(json.dumps(got)), 100_000)


class Hostile(unittest.TestCase):
    """A program that kills its parser does not affect others."""

    def answers(self, programs, **kw):
        out, sys.stdout = sys.stdout, io.StringIO()
        try:
            assay_static.main([{"code": p} for p in programs], RULES, **kw)
            return json.loads(sys.stdout.getvalue())["programs"]
        finally:
            sys.stdout = out

    def test_others_are_judged(self):
        deep = ["-" * 1_000_000 + "1", "(" * 1_000_000, "a." * 300_000 + "b", "lambda:" * 100_000 + "1", "f'{" * 200 + "1", "[" * 150 + "]" * 150]
        programs = ["x = 1\nprint(x)"]
        for p in deep:
            programs += [p, "def f(): pass"]
        got = self.answers(programs)
        self.assertEqual(len(got), len(programs))
        for i in range(0, len(got), 2):
            self.assertNotIn("error", got[i], (i, got[i]))
        for answer in got[1:-2:2]:
            self.assertIn("error", answer)

    def test_a_crash_is_told_from_the_rest(self):
        real, assay_static.judge = assay_static.judge, lambda p, rules: os.abort() if "abort" in p["code"] else real(p, rules)
        try:
            got = self.answers(["1", "abort", "abort", "x = 1"])
        finally:
            assay_static.judge = real
        self.assertEqual([a.get("error", {}).get("type") for a in got], [None, "Unjudged", "Unjudged", None])
        self.assertIn("SIGABRT", got[1]["error"]["message"])

    def test_time_is_bounded(self):
        def slow(p, rules):
            while "slow" in p["code"]:
                pass
            return real(p, rules)

        real, assay_static.judge = assay_static.judge, slow
        seconds, assay_static.SECONDS = assay_static.SECONDS, 0.2
        try:
            got = self.answers(["slow", "1"])
            start = time.monotonic()
            rest = self.answers(["slow"] * 1000, seconds=1)
            took = time.monotonic() - start
        finally:
            assay_static.judge, assay_static.SECONDS = real, seconds
        self.assertIn("of the processor", got[0]["error"]["message"])
        self.assertNotIn("error", got[1])
        self.assertEqual(len(rest), 1000)
        self.assertIn("together", rest[-1]["error"]["message"])
        self.assertLess(took, 20)


class Speed(unittest.TestCase):
    def test_names_of_a_large_program(self):
        code = "def f(x):\n    return [x + y for y in range(x)]\n" * 5_000
        names = Names()
        names.block(compile(code, "x", "exec", 0x400).body)
        self.assertEqual(names.undefined(), [])


if __name__ == "__main__":
    unittest.main()
