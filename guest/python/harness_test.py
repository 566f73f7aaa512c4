"""Tests of harness.py: python3 -m unittest harness_test (from this directory).

ASSAY_HARNESS is the combined file from the worker; without it, the tests use the separate files.
"""

import json
import os
import subprocess
import sys
import textwrap
import threading
import time
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
HARNESS = os.environ.get("ASSAY_HARNESS") or os.path.join(HERE, "harness.py")
with open(os.path.join(HERE, "assay_imports.py")) as f:
    RULES = f.read()


def run(code, variables=None, context=None, timeout=20, imports=None, script=None, stdin="", wall=None, env=None):
    """Run a snippet like the worker. Return (exit code, stdout, stderr, result)."""
    imports = imports and dict(imports, source=RULES)
    request = {"code": textwrap.dedent(code), "variables": variables or {}, "context": context, "imports": imports, "wall": wall}
    if script:
        request = {"code": code, "script": script}
    request = json.dumps(request).encode()
    request_r, request_w = os.pipe()
    result_r, result_w = os.pipe()

    def child():
        # The numbers may overlap: move them out of the way first.
        a, b = os.dup2(request_r, 100), os.dup2(result_w, 101)
        os.dup2(a, 3)
        os.dup2(b, 4)
        os.closerange(100, 102)

    p = subprocess.Popen(
        [sys.executable, "-B", HARNESS], preexec_fn=child, pass_fds=(3, 4), env={**os.environ, **(env or {})},
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )
    os.close(request_r)
    os.close(result_w)
    with os.fdopen(request_w, "wb") as f:
        f.write(request)
    got = []

    def collect():
        with os.fdopen(result_r, "rb") as f:
            got.append(f.read())

    reader = threading.Thread(target=collect)
    reader.start()
    out, err = p.communicate(stdin.encode(), timeout=timeout)
    reader.join(timeout)
    data = got[0]
    return p.returncode, out.decode("utf-8", "surrogateescape"), err.decode(), json.loads(data) if data else None


class Ends(unittest.TestCase):
    def test_a_repr_does_not_make_a_program_late(self):
        for body in "import time; time.sleep(60)", "while True: pass", "import os; os._exit(3)", "raise SystemExit(3)":
            for end in "C()", "raise E()", "raise ValueError(c)":
                with self.subTest(body + ": " + end):
                    code = "class C:\n    def __repr__(self):\n        {0}\nclass E(Exception):\n    def __str__(self):\n        {0}\nprint('made')\nc = [C()]\na = 1\n{1}"
                    began = time.monotonic()
                    exit_code, out, err, result = run(code.format(body, end), wall=1)
                    self.assertLess(time.monotonic() - began, 5)
                    self.assertEqual((exit_code, out), (0 if end == "C()" else 1, "made\n"))
                    self.assertEqual((result["variables"]["a"]["repr"], result["variables"]["c"]["repr"][:6]), ("1", "<repr "))
                    if end == "C()":
                        self.assertEqual(result["value"]["repr"][:6], "<repr ")
                    else:
                        self.assertIn(', in <module>\n    ' + end, err)

    def test_awaits_at_the_top_level(self):
        for code, want in {
            "import asyncio\nawait asyncio.sleep(0)\nprint('a')": None, "import asyncio\nawait asyncio.sleep(0, 5)": 5,
            "import asyncio\nasync def f(): return 6\nasyncio.run(f()) + await f()": 12,
        }.items():  # fmt: skip
            exit_code, _, err, result = run(code)
            self.assertEqual((exit_code, err, (result.get("value") or {}).get("json")), (0, "", want), code)
        exit_code, _, err, result = run("import asyncio\n\nawait asyncio.sleep(0)\n1 / 0")
        self.assertEqual(err.splitlines()[:3], ["Traceback (most recent call last):", '  File "<job>", line 4, in <module>', "    1 / 0"])
        self.assertEqual(result["exception"]["line"], 4)

    def test_exit_codes(self):
        for code in "10**30", "-10**30", "300", "-1", "True", "2**63", "-2**63", "'text'", "''", "'a\\n'", "[1]", "1.5":
            with self.subTest(code):
                plain = subprocess.run([sys.executable, "-c", "raise SystemExit(%s)" % code], capture_output=True, text=True)
                exit_code, _, err, _ = run("raise SystemExit(%s)" % code)
                self.assertEqual((exit_code, err), (plain.returncode, plain.stderr.partition("Exception ignored on")[0]))


class Encoding(unittest.TestCase):
    def test_is_that_of_the_environment(self):
        for asked in "latin-1", "ascii:replace", "utf-8:strict", ":ignore", "utf-16-le", "ascii:xmlcharrefreplace":
            for code in "print('\\xe9')", "print('\\ud800')", "import sys\nprint(sys.stdout.encoding, sys.stdout.errors, sys.stdin.encoding)":
                for script in None, {"path": "/main.py"}:
                    with self.subTest(asked + " " + code, script=script):
                        env = {"PYTHONIOENCODING": asked, "PYTHONUTF8": "1"}
                        plain = subprocess.run([sys.executable, "-c", code], capture_output=True, env={**os.environ, **env})
                        exit_code, out, _, _ = run(code, env=env, script=script)
                        self.assertEqual((exit_code, out), (plain.returncode, plain.stdout.decode("utf-8", "surrogateescape")))


class Excepthook(unittest.TestCase):
    """The program's own hook is called for its uncaught exception, as by the interpreter."""

    def hook(self, body, code="1 / 0", script=None):
        return run("import sys\ndef hook(kind, value, trace):\n    %s\nsys.excepthook = hook\n%s\n" % (body, code), script=script)

    def test_hook_prints(self):
        code, out, err, result = self.hook("print('hooked', kind.__name__, value)")
        self.assertEqual((code, out, err), (1, "hooked ZeroDivisionError division by zero\n", ""))
        self.assertEqual(result["exception"]["type"], "ZeroDivisionError")

    def test_traceback_has_frames_of_the_program_only(self):
        code, out, _, _ = self.hook("print([f.name for f in __import__('traceback').extract_tb(trace)])", "def f(): 1 / 0\nf()")
        self.assertEqual((code, out), (1, "['<module>', 'f']\n"))

    def test_syntax_error_has_no_traceback(self):
        code, out, _, _ = self.hook("print(kind.__name__, trace is None)", "eval('1 +')")
        self.assertEqual((code, out), (1, "SyntaxError False\n"))

    def test_hook_exits(self):
        code, _, err, result = self.hook("sys.exit(7)")
        self.assertEqual((code, err, result["exception"]["type"]), (7, "", "ZeroDivisionError"))

    def test_hook_raises(self):
        code, _, err, result = self.hook("raise KeyError('mine')")
        self.assertEqual((code, result["exception"]["type"]), (1, "ZeroDivisionError"))
        self.assertRegex(err, r"(?s)^Error in sys.excepthook:\n.*KeyError: 'mine'\n.*Original exception was:\n.*ZeroDivisionError")

    def test_hook_of_a_script(self):
        code, out, err, _ = self.hook("print('hooked')", script={"path": "/workspace/solution.py"})
        self.assertEqual((code, out, err), (1, "hooked\n", ""))

    def test_exits_are_not_hooked(self):
        self.assertEqual(self.hook("print('hooked')", "sys.exit(3)")[:3], (3, "", ""))


class Script(unittest.TestCase):
    """A script behaves like its file under python3, and reports nothing else."""

    def test_as_python3_runs_it(self):
        import tempfile

        plain = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
        plain["PYTHONUTF8"] = "1"
        for code in (
            "print(1)\n2", "x = 5", "import sys\nprint(sys.argv, __name__, __file__, sys.path[0])", "a, b = map(int, input().split())\nprint(a + b)",
            "import sys\nfor line in sys.stdin: print(line.strip()[::-1])", "1 / 0", "def f():\n    raise KeyError('a')\n\ntry:\n    f()\nfinally:\n    print('x')",
            "import sys\nsys.exit(3)", "import sys\nsys.exit('no')", "raise SystemExit", "print('a', end='')\nimport os\nos._exit(0)", "def", "print('\\ud800')",
            "import sys\nprint('e', file=sys.stderr)\nprint('o')", "class R:\n    def __repr__(self): print('never')\nr = R()\nr",
            "import atexit\natexit.register(print, 'bye')\nprint('hi')", "from __future__ import annotations\ndef f(a: b): pass\nprint(f.__annotations__)",
            "import sys\nsys.stdout.buffer.write(b'raw')", "import threading\nthreading.Thread(target=lambda: print('t')).start()", "print(input())\nprint(input())\nprint(input())",
        ):  # fmt: skip
            with self.subTest(code), tempfile.TemporaryDirectory() as d:
                path = os.path.join(d, "main.py")
                with open(path, "w") as f:
                    f.write(code)
                stdin = "3 4\nzwei"
                want = subprocess.run([sys.executable, "-B", path, "a", "-x"], input=stdin.encode(), capture_output=True, env=plain)
                status, out, err, result = run(code, script={"path": path, "args": ["a", "-x"]}, stdin=stdin)
                self.assertEqual((status, out, err), (want.returncode, want.stdout.decode(), want.stderr.decode()))
                self.assertIn(sorted(result or {}), ([], ["exception"]))

    def test_many_lines_are_not_a_write_each(self):
        status, out, _, _ = run(
            "import os\nbefore = open('/proc/self/io').read()\nfor i in range(50000): print(i)\nafter = open('/proc/self/io').read()\n"
            "calls = [int(t.split('syscw: ')[1].split()[0]) for t in (before, after)]\nprint(calls[1] - calls[0] < 1000)",
            script={"path": "/workspace/main.py"},
        )
        self.assertEqual((status, out[-5:]), (0, "True\n"))


class Value(unittest.TestCase):
    def value(self, code, **kw):
        status, _, err, result = run(code, **kw)
        self.assertEqual((status, err), (0, ""))
        return result.get("value")

    def test_last_expression(self):
        self.assertEqual(self.value("x = 20\nx + 1"), {"type": "int", "repr": "21", "json": 21})

    def test_the_short_way_and_the_tree_agree(self):
        """Code is split at its last unindented line, or by its tree if necessary."""
        sys.path.insert(0, os.path.dirname(HARNESS))
        import harness

        short = 0
        parts = harness._parts
        for code in (
            "1 + 1", "x = 1\nx\n", "x = [1,\n2]\n(x,\n x)\n", "def f():\n  return 3\nf()", '"""a\nb\n"""', 's = """\nfoo()\n"""',
            "x = 1 + \\\n2", "x = 1 \\\n-1", '"doc"\n__doc__', "x = 1; x", "1; 2", "a = 1\n\n# c\na # d", "if 1:\n  5",
            "from __future__ import annotations\ndef f(a: b): pass\nf.__annotations__", "x = 3\n(y := x)", "*[1], 2", "1 / 0",
            "x = 1\n\n1 / 0", "def f():\n  1 / 0\n\nf()", "f(\n", "x = 1\r\nx + 1\r\n", "1\u00a0", "1\n\\\n", "# only", "", "\n\n",
            "[\n1,\n2\n]", "x = 5\n[\nx\n]", "`", "return 5", "yield 1", "await x", "x: int = 5", "x += 1", "a = []\na[1:] = [2]",
            "print(1)\n 2", "try:\n  1\nexcept: 2\n5", "@x\n5", "x \\\n", "a = 1\n\x0ca", '"\\d"', "x = 1\n1 is 1", "...", "None", "a = 1\ra",
            '"\x00"', "x = 3\n\'\'\'\nx\n\'\'\'", "x = 5\nx == 5", "while 0: pass\nelse: 3\n", "1 if 1 else\\\n 2", "(\n1 / 0\n)",
            "import os\nos.sep", "print(\n1,\n2)\n5; 6", "match = 1\nmatch", "lambda: 3\n(lambda: 3)()", "x = 2\n\n(x\n/ 0\n)",
        ):  # fmt: skip
            got = []
            for way in parts, lambda code, filename: None:
                harness._parts = way
                names = {"__name__": "__main__"}
                try:
                    value = repr(harness._execute(code, names, []))
                except BaseException as e:
                    value = harness._exception(e)
                    value["traceback"] = value["traceback"].partition('File "<job>"')[2]
                names.pop("__builtins__", None)
                got.append((value, sorted(names)))
            harness._parts = parts
            self.assertEqual(got[0], got[1], code)
            short += parts(code, "<job>") is not None
        self.assertGreater(short, 15)

    def test_no_expression(self):
        self.assertIsNone(self.value("x = 1"))
        self.assertIsNone(self.value("None"))
        self.assertIsNone(self.value(""))
        self.assertIsNone(self.value("# only a comment"))

    def test_faithful(self):
        for code, want in [
            ("[1, 2.5, 'é', None, True, {'k': []}]", [1, 2.5, "é", None, True, {"k": []}]),
            ("2 ** 100", 2**100), ("''", ""), ("{}", {}), ("0.1 + 0.2", 0.1 + 0.2), ("False", False),
        ]:
            self.assertEqual(self.value(code)["json"], want, code)

    def test_not_faithful(self):
        for code in [
            "(1, 2)", "{1: 2}", "float('nan')", "float('inf')", "{1, 2}", "b'x'", "1j", "'\\ud800'", "'\\0'",
            "[1, (2,)]", "type('L', (list,), {})()", "x = []; x.append(x); x".replace("; ", "\n"), "'x' * 100000",
            "10 ** 10000",
        ]:
            self.assertNotIn("json", self.value(code), code)

    def test_deep(self):
        v = self.value("x = []\nfor _ in range(100000): x = [x]\nx")
        self.assertNotIn("json", v)
        self.assertLess(len(v["repr"]), 1000)

    def test_repr_is_exact_when_it_fits(self):
        for code in [
            "[1, 'a', (1,), (), {'k': {1, }}, set(), frozenset([1]), [[]], {}]", "[x for x in range(100)]",
            "x = [1]\nx.append(x)\nx", "x = {}\nx['x'] = x\nx", "'a' * 1000", "-5", "__import__('collections').OrderedDict(a=1)",
        ]:
            names = {}
            *body, last = code.split("\n")
            exec("\n".join(body), names)
            self.assertEqual(self.value(code)["repr"], repr(eval(last, names)), code)

    def test_repr_is_capped(self):
        for code in ["'x' * 10_000_000", "list(range(5_000_000))", "{i: 'v' * 100 for i in range(100000)}", "'é' * 1_000_000", "1 << 10_000_000"]:
            self.assertLessEqual(len(self.value(code)["repr"].encode()), 64 << 10, code)

    def test_future(self):
        self.assertEqual(self.value("from __future__ import annotations\ndef f(x: Unknown): pass\nf.__annotations__")["json"], {"x": "Unknown"})

    def test_docstring_is_a_value(self):
        self.assertEqual(self.value("'just text'")["json"], "just text")


class Variables(unittest.TestCase):
    def names(self, code, **kw):
        status, _, err, result = run(code, **kw)
        self.assertEqual((status, err), (0, ""))
        return {k: v["repr"] for k, v in result["variables"].items()}

    def test_new_and_changed(self):
        got = self.names(
            "import os\nnew = 1\nchanged = 2\ngrown.append(1)\n_hidden = 3\nsame",
            variables={"changed": 1, "grown": [], "same": 5, "untouched": {"a": 1}},
        )
        self.assertEqual(got, {"new": "1", "changed": "2", "grown": "[1]"})

    def test_as_many_as_before(self):
        _, _, _, result = run("del __doc__, __file__\nx = 1\n__file__ = 2")
        self.assertEqual(list(result["variables"]), ["x"])

    def test_context(self):
        self.assertEqual(self.names("x = context['a']", context={"a": 1}), {"x": "1"})
        self.assertEqual(self.names("x = 'context' in globals()"), {"x": "False"})

    def test_kept_after_an_exception(self):
        _, _, _, result = run("x = 1\n1/0\ny = 2")
        self.assertEqual(list(result["variables"]), ["x"])

    def test_bounded(self):
        self.assertEqual(len(self.names("for i in range(1000): globals()['v%d' % i] = i")), 200)

    def test_hostile(self):
        got = self.names("""
            class A:
                def __repr__(self): raise SystemExit
            class B:
                def __repr__(self): return 5
            class M(type):
                def __getattribute__(cls, n): raise ValueError
            class C(metaclass=M): pass
            a, b, c = A(), B(), C()
            del A, B, C, M
            globals()[5] = 6
        """)
        self.assertEqual(set(got), {"a", "b", "c"})


class Exceptions(unittest.TestCase):
    def exception(self, code):
        status, _, err, result = run(code)
        self.assertNotEqual(status, 0)
        self.assertEqual(err, result["exception"]["traceback"])
        self.assertNotIn("harness", err)
        return result["exception"]

    def as_script(self, code):
        """Return the interpreter's own output, under the snippet's name."""
        p = subprocess.run([sys.executable, "-c", "import linecache, sys; c = sys.stdin.read(); linecache.cache['<job>'] = (len(c), None, c.splitlines(True), '<job>'); "
                            "import traceback\ntry: exec(compile(c, '<job>', 'exec'), {'__name__': '__main__'})\n"
                            "except BaseException as e:\n e.__traceback__ = e.__traceback__.tb_next\n traceback.print_exception(type(e), e, e.__traceback__)"],
                           input=code, capture_output=True, text=True)
        return p.stderr

    def test_lines(self):
        code = "def f(n):\n    if n == 0:\n        raise ValueError('no')\n    f(n - 1)\n\nf(3)\n"
        e = self.exception(code)
        self.assertEqual((e["type"], e["message"], e["line"]), ("ValueError", "no", 3))
        self.assertEqual(e["traceback"], self.as_script(code))

    def test_chained(self):
        code = "try:\n    1/0\nexcept ZeroDivisionError as e:\n    raise KeyError('k') from e\n"
        self.assertEqual(self.exception(code)["traceback"], self.as_script(code))

    def test_in_a_library(self):
        e = self.exception("import json\n\njson.loads('{')")
        self.assertEqual((e["type"], e["line"]), ("json.decoder.JSONDecodeError", 3))

    def test_last_expression(self):
        e = self.exception("x = 1\n\nx / 0")
        self.assertEqual(e["line"], 3)
        self.assertIn("x / 0", e["traceback"])

    def test_syntax(self):
        e = self.exception("x = 1\nif x\n    pass")
        self.assertEqual((e["type"], e["line"]), ("SyntaxError", 2))
        self.assertNotIn("ast.py", e["traceback"])
        e = self.exception("return 5")  # found by the compiler, not the parser
        self.assertEqual(e["type"], "SyntaxError")
        self.assertEqual(self.exception("x = '\0'")["type"], self.exception("x = '\0'")["type"])

    def test_own_class(self):
        self.assertEqual(self.exception("class Mine(Exception): pass\nraise Mine('m')")["type"], "Mine")
        self.assertEqual(self.exception("class Base(BaseException): pass\nraise Base")["type"], "Base")

    def test_hostile_str(self):
        e = self.exception("class E(Exception):\n    def __str__(self): raise SystemExit\nraise E")
        self.assertEqual(e["type"], "E")
        self.assertIn("E", e["traceback"])

    def test_recursion(self):
        e = self.exception("def f(): f()\nf()")
        self.assertEqual((e["type"], e["line"]), ("RecursionError", 1))
        self.assertLess(len(e["traceback"]), 10000)

    def test_huge_message(self):
        e = self.exception("raise ValueError('x' * 10_000_000)")
        self.assertLessEqual(len(e["message"].encode()), 8 << 10)
        self.assertLessEqual(len(e["traceback"].encode()), 60 << 10)

    def test_endless_chain(self):
        e = self.exception("a = ValueError('a')\nb = ValueError('b')\na.__cause__ = b\nb.__cause__ = a\nraise a")
        self.assertEqual(e["message"], "a")

    def test_keyboard_interrupt(self):
        status, _, _, result = run("raise KeyboardInterrupt")
        self.assertEqual((status, result["exception"]["type"]), (130, "KeyboardInterrupt"))


class Exit(unittest.TestCase):
    def test_codes(self):
        for code, want in [
            ("import sys; sys.exit()", 0), ("import sys; sys.exit(5)", 5), ("raise SystemExit(256 + 7)", 7), ("exit(3)", 3),
            ("import sys; sys.exit(None)", 0), ("import sys; sys.exit(True)", 1), ("import os; os._exit(9)", 9),
        ]:
            status, _, err, _ = run(code)
            self.assertEqual((status, err), (want, ""), code)

    def test_message(self):
        status, out, err, result = run("import sys\nprint('out')\nsys.exit('bad')")
        self.assertEqual((status, out, err), (1, "out\n", "bad\n"))
        self.assertNotIn("exception", result)

    def test_handlers_and_threads(self):
        status, out, _, _ = run("""
            import atexit, threading, time
            atexit.register(lambda: print("handler"))
            def work():
                time.sleep(0.1)
                print("thread")
            threading.Thread(target=work).start()
            print("main")
        """)
        self.assertEqual((status, out), (0, "main\nthread\nhandler\n"))

    def test_closed_streams(self):
        status, _, _, result = run("import sys\nsys.stdout.close()\nsys.stderr.close()\n5")
        self.assertEqual(result["value"]["repr"], "5")

    def test_no_streams(self):
        status, _, _, result = run("import sys\nsys.stdout = sys.stderr = None\n5")
        self.assertEqual((status, result["value"]["repr"]), (0, "5"))

    def test_closed_result(self):
        status, out, _, result = run("import os\nos.close(4)\nprint('x')")
        self.assertEqual((status, out, result), (0, "x\n", None))

    def test_subprocess_does_not_hold_the_result(self):
        status, out, _, result = run("import os\nif os.fork() == 0: os.execvp('sh', ['sh', '-c', 'ls /proc/self/fd | wc -l'])\nos.wait()\n5")
        self.assertEqual((status, result["value"]["repr"]), (0, "5"))

    def test_forked_child_that_returns(self):
        # Both come back to the harness; one result is enough, and none is torn.
        status, out, _, result = run("import os\npid = os.fork()\nif pid: os.waitpid(pid, 0)\nprint('x')")
        self.assertEqual((status, out), (0, "x\nx\n"))
        self.assertIsNotNone(result)


class Imports(unittest.TestCase):
    """Rules apply to all imports of the snippet's own, by any means."""

    def tried(self, rules, *calls):
        attempts = "".join("try: print(%s.__name__)\nexcept ImportError as e: print(e)\n" % c for c in calls)
        status, out, err, _ = run("import importlib, json\nfrom importlib import import_module\no, s = 'o', 's'\n" + attempts, imports=rules)
        self.assertEqual((status, err), (0, ""))
        return dict(zip(calls, out.splitlines()))

    def test_names_made_up_at_run_time(self):
        calls = (
            "__import__(o + s)", "importlib.import_module(o + s)", "import_module(name=o + s)", "importlib.__import__(o + s)",
            "import_module('.path', o + s)", "list(map(import_module, [o + s]))[0]", "(lambda: import_module(o + s))()",
            "eval('import_module(o + s)')", "import_module(o + s + '.path')",
        )  # fmt: skip
        for rules in {"deny": ["os"]}, {"allow": ["importlib", "json"]}:
            for call, said in self.tried(rules, *calls).items():
                self.assertIn("is forbidden by policy.imports", said, (call, rules))
        for call, said in self.tried(None, *calls).items():
            self.assertIn(said, ("os", "posixpath"), call)

    def test_what_is_not_forbidden(self):
        want = {
            "import_module('js' + 'on')": "json",
            "import_module('.decoder', 'json')": "json.decoder",
            "importlib.__import__('js' + 'on', fromlist=['decoder'])": "json",
            "import_module('shut' + 'il')": "shutil",  # imports a module that the snippet may not
        }
        self.assertEqual(self.tried({"deny": ["os"]}, *want), want)

    def test_none(self):
        """All modules are denied except the named ones. Their own imports, including imports in C, are not
        restricted.
        """
        for code, rules, want in (
            ("import json", {"deny": ["*"]}, "line 1: import of json"),
            ("import json\nfrom os import path", {"deny": ["*"], "allow": ["json"]}, "line 2: import of os"),
            ("def f():\n  import re\nimport json", {"deny": ["*"]}, "line 2: import of re"),
            ("from __future__ import annotations\nimport json, time, datetime\ntime.strptime('2020', '%Y')\n"
             "datetime.datetime.strptime('2020', '%Y')\njson.loads('1')", {"deny": ["*"], "allow": ["json", "time", "datetime"]}, None),
            ("'\\N{SNOWMAN}'.encode('idna')", {"deny": ["*"]}, None),
        ):  # fmt: skip
            status, _, err, result = run(code, imports=rules)
            self.assertEqual((result.get("violation"), err), (want, ""), code)
            self.assertEqual(status, 1 if want else 0)
        _, _, err, result = run("def f():\n  __import__('o' + 's')\nf()", imports={"deny": ["os"]})
        self.assertEqual(err.count("File"), 2, err)  # no frame of the harness
        self.assertEqual(result["exception"]["line"], 2)
        status, out, _, _ = run("try: __import__('o' + 's')\nexcept ImportError as e: print(e)", imports={"deny": ["*"]})
        self.assertEqual(out, "import of os is forbidden by policy.imports\n")


class Main(unittest.TestCase):
    def test_namespace(self):
        status, out, _, _ = run("""
            import sys, __main__
            print(__name__, __file__, sys.argv, __main__.__dict__ is globals())
            print(sorted(n for n in globals() if not n.startswith('__')))
        """)
        self.assertEqual(out, "__main__ <job> ['<job>'] True\n['sys']\n")

    def test_pickle_and_inspect(self):
        status, _, err, result = run("""
            import inspect, pickle
            class P: pass
            assert isinstance(pickle.loads(pickle.dumps(P())), P)
            def f(x):
                return x + 1
            inspect.getsource(f)
        """)
        self.assertEqual((status, err), (0, ""))
        self.assertEqual(result["value"]["json"], "def f(x):\n    return x + 1\n")

    def test_order_of_output(self):
        status, out, _, _ = run("import subprocess\nprint('a')\nsubprocess.run(['echo', 'b'])\nprint('c')")
        self.assertEqual(out, "a\nb\nc\n")


if __name__ == "__main__":
    unittest.main()
