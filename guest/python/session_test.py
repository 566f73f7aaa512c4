"""Tests of session.py: python3 -m unittest session_test (from this directory).

Each test starts an interpreter that serves a session on a socket, like a worker.
"""

import base64
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import textwrap
import time
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
START = "import sys; sys.path.insert(0, %r); import session; session.serve(int(sys.argv[1]))" % HERE
LIMIT = 1 << 20  # bytes of a stream


class Live:
    """A session in its own directory."""

    def __init__(self, **env):
        self.directory = tempfile.mkdtemp(prefix="session-test-")
        self.conn, theirs = socket.socketpair()
        self.process = subprocess.Popen(
            [sys.executable, "-B", "-c", START, str(theirs.fileno())], pass_fds=[theirs.fileno()], cwd=self.directory,
            stdin=subprocess.DEVNULL, env={**os.environ, **env}, start_new_session=True,
        )  # fmt: skip
        theirs.close()
        self.number = 0
        self.calls = []
        self.conn.settimeout(20)
        assert self.receive() == {"op": "ready"}

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.conn.close()
        try:
            os.killpg(self.process.pid, 9)
        except ProcessLookupError:
            pass
        self.process.wait()
        shutil.rmtree(self.directory)

    def receive(self):
        size = int.from_bytes(self.exactly(4), "big")
        return json.loads(self.exactly(size))

    def exactly(self, n):
        data = b""
        while len(data) < n:
            part = self.conn.recv(n - len(data))
            if not part:
                raise EOFError("the session has ended: %s" % self.process.wait())
            data += part
        return data

    def send(self, load=None, **m):
        if load is not None:
            m["load"] = len(load)
        data = json.dumps(m).encode()
        self.conn.sendall(len(data).to_bytes(4, "big") + data + (load or b""))

    def ask(self, op, load=None, interrupt=None, **m):
        """Send a request and return its response. interrupt is the delay in seconds before an interrupt."""
        self.number += 1
        self.send(load, op=op, id=self.number, **m)
        if interrupt is not None:
            time.sleep(interrupt)
            self.send(op="interrupt", id=self.number)
        while True:
            answer = self.receive()
            if answer["op"] == "call":
                self.calls.append(answer)
                self.send(op="answer", call=answer["call"], value=answer["args"])
            elif answer["op"] == "done" and answer["id"] == self.number:
                return answer
            elif answer["op"] != "exceeded":
                raise AssertionError("unexpected frame: %r" % answer)

    def run(self, code, interrupt=None, **m):
        m = {"stdout": LIMIT, "stderr": LIMIT, **m}
        answer = self.ask("execute", code=textwrap.dedent(code), interrupt=interrupt, **m)
        for stream in "stdout", "stderr":
            answer[stream] = "".join(text for name, text in answer["output"] + answer["tail"] if name == stream)
        return answer

    def value(self, code, **m):
        """Return the value of code, which must not raise."""
        answer = self.run(code, **m)
        if "exception" in answer or "value" not in answer:
            raise AssertionError(answer)
        value = answer["value"]
        return value["json"] if "json" in value else value["repr"]


class Shell(unittest.TestCase):
    """An interrupted script leaves no process, and processes of earlier scripts stay."""

    def sleeping(self, kill=()):
        """Return the first digits of this test's running sleeps."""
        found = set()
        for name in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open("/proc/%s/cmdline" % name) as f:
                    argv = f.read().split("\0")
            except OSError:
                continue
            if argv[0] == "sleep" and argv[1].endswith(".%d" % os.getpid()):
                found.add(argv[1][:4])
                if argv[1][:4] in kill:
                    os.kill(int(name), 9)
        return found

    def test_interrupt_kills_all(self):
        shell = {"stdout": LIMIT, "stderr": LIMIT}
        daemon = "import os; os.fork() and os._exit(0); os.setsid(); os.fork() and os._exit(0); os.execvp('sleep', ['sleep', '3118.N'])"
        for started in (
            "sleep 3111.N & sleep 3112.N",
            "setsid sleep 3113.N & sleep 3114.N",
            "(setsid bash -c 'sleep 3115.N & sleep 3116.N' &) ; sleep 3117.N",
            'python3 -c "%s"; sleep 3119.N' % daemon,
            "(nohup setsid sleep 3120.N >/dev/null 2>&1 </dev/null &); exec sleep 3121.N",
            "trap '' TERM INT; setsid env -i sleep 3122.N & sleep 3123.N",
        ):
            with self.subTest(started), Live() as s:
                command = "setsid sleep 3199.N >/dev/null 2>&1 & x=5; export y=6".replace("N", str(os.getpid()))
                self.assertEqual(s.ask("shell", command=command, **shell)["code"], 0)
                answer = s.ask("shell", command=started.replace("N", str(os.getpid())), interrupt=0.7, **shell)
                self.assertTrue(answer.get("interrupted"), answer)
                self.assertEqual(self.sleeping(kill=["3199"]), {"3199"})
                answer = s.ask("shell", command="echo $x$y", **shell)
                self.assertEqual("".join(t for name, t in answer["output"] + answer["tail"]), "56\n", answer)


class Forks(unittest.TestCase):
    """A process that a snippet forks never responds for its session."""

    def test_child_does_not_answer(self):
        for ending, code in {
            "sys.exit(3)": 3, "1 / 0": 1, "pass": 0, "raise SystemExit": 0, "os._exit(4)": 4, "raise KeyboardInterrupt": 130,
            "sys.exit('message')": 1, "os.execvp('true', ['true'])": 0, "exit(5)": 5, "exec('raise SystemExit(6)')": 6,
            "os.kill(os.getpid(), 9)": -9,
        }.items():  # fmt: skip
            with self.subTest(ending), Live() as s:
                s.run("keep = [7]")
                answer = s.run("""
                    import os, sys
                    pid = os.fork()
                    if pid == 0:
                        print('child')
                        %s
                    else:
                        _, status = os.waitpid(pid, 0)
                        print('parent')
                    os.WIFSIGNALED(status) and -os.WTERMSIG(status) or os.WEXITSTATUS(status) if pid else 'child value'
                """ % ending)
                self.assertEqual(answer["stdout"], "child\nparent\n", answer)
                self.assertEqual(answer["value"]["json"], code)
                self.assertEqual(s.value("keep"), [7])

    def test_traceback_of_child_is_shown(self):
        with Live() as s:
            answer = s.run("""
                import os
                if os.fork() == 0:
                    raise ValueError('in the child')
                os.wait()
            """)
            self.assertIn("Traceback (most recent call last):\n", answer["stderr"])
            self.assertIn("\nValueError: in the child\n", answer["stderr"])
            self.assertIn("raise ValueError('in the child')", answer["stderr"])
            self.assertNotIn("exception", answer)

    def test_output_of_children_is_shown(self):
        cases = {
            "process": ("import multiprocessing as m\np = m.Process(target=print, args=('child',))\np.start(); p.join()", "child\n"),
            "no newline": ("import multiprocessing as m\np = m.Process(target=print, args=('child',), kwargs={'end': ''})\np.start(); p.join()", "child"),
            "pool": ("from multiprocessing import Pool\ndef f(x):\n    print('in', x)\n    return x\nwith Pool(1) as p: p.map(f, [1])", "in 1\n"),
            "executor": (
                "from concurrent.futures import ProcessPoolExecutor as P\ndef f(x): print('in', x)\nwith P(1) as p: list(p.map(f, [1]))", "in 1\n",
            ),
            "nested": (
                "import os\nif os.fork() == 0:\n    if os.fork() == 0:\n        print('grandchild')\n    else:\n        os.wait(); print('child')\nelse:\n"
                "    os.wait(); print('parent')", "grandchild\nchild\nparent\n",
            ),
            "thread": (
                "import os, threading\ndef f():\n    if os.fork() == 0:\n        print('child')\n        raise SystemExit\n    os.wait()\n"
                "t = threading.Thread(target=f); t.start(); t.join()\nprint('parent')", "child\nparent\n",
            ),
            "atexit": ("import atexit, os\nif os.fork() == 0:\n    atexit.register(print, 'at exit')\nelse: os.wait()", "at exit\n"),
            "thread of the child": (
                "import os, threading, time\nif os.fork() == 0:\n    threading.Thread(target=lambda: (time.sleep(.1), print('late'))).start()\nelse: os.wait()",
                "late\n",
            ),
            "redirected": ("import os, contextlib, io\nwith contextlib.redirect_stdout(io.StringIO()):\n    pid = os.fork()\nprint('x' if pid else 'y', end='')\npid and os.wait()\nNone", None),
            "c": ("import ctypes, os\nif os.fork() == 0:\n    ctypes.CDLL(None).printf(b'from c\\n')\nelse: os.wait()", "from c\n"),
            "buffer": ("import os, sys\nif os.fork() == 0:\n    sys.stdout.buffer.write(b'raw\\n')\nelse: os.wait()", "raw\n"),
            "libc": ("import ctypes, os\nc = ctypes.CDLL(None)\nif c.fork() == 0:\n    print('child')\nelse: os.wait()", "child\n"),
        }  # fmt: skip
        for name, (code, want) in cases.items():
            with self.subTest(name), Live() as s:
                answer = s.run(code)
                if want is None:
                    self.assertEqual(sorted(answer["stdout"]), ["x", "y"])
                else:
                    self.assertEqual(answer["stdout"], want, answer)
                self.assertEqual(s.value("1 + 1"), 2)

    def test_child_outlives_the_execution(self):
        with Live() as s:
            s.run("""
                import os, time
                read, write = os.pipe()
                if os.fork() == 0:
                    os.read(read, 1)
                    print('child')
            """)
            self.assertEqual(s.run("os.write(write, b'x'); os.wait(); print('parent')")["stdout"], "child\nparent\n")

    def test_child_cannot_call_the_host(self):
        with Live() as s:
            s.ask("inject", names=["f"])
            answer = s.run("""
                import os
                if os.fork() == 0:
                    try:
                        f(1)
                    except CallError as e:
                        print(e)
                else:
                    os.wait()
                    print(f(2))
            """)
            self.assertEqual(answer["stdout"].splitlines()[1:], ["[2]"], answer)
            self.assertIn("forked", answer["stdout"])

    def test_session_ends_although_a_child_lives(self):
        with Live() as s:
            s.send(op="execute", id=1, code="import os, time\nif os.fork() == 0: time.sleep(60)\nos._exit(3)", stdout=LIMIT, stderr=LIMIT)
            with self.assertRaises(EOFError):
                s.receive()

    def test_forkpty(self):
        with Live() as s:
            answer = s.run("""
                import os
                pid, fd = os.forkpty()
                if pid == 0:
                    print('child')
                else:
                    data = b''
                    while 10 not in data: data += os.read(fd, 100)
                    os.waitpid(pid, 0)
                    print(data)
            """)
            self.assertEqual(answer["stdout"], "b'child\\r\\n'\n", answer)


class Streams(unittest.TestCase):
    """The standard streams are text files, like a program's."""

    def test_each_snippet_leaves_usable_streams(self):
        cases = {
            "reconfigure": ("sys.stdout.reconfigure(encoding='utf-8')\nprint('é')", "é\n"),
            "reconfigure errors": ("sys.stdout.reconfigure(errors='replace', line_buffering=False)\nprint('é')", "é\n"),
            "wrapper": ("sys.stdout = io.TextIOWrapper(sys.stdout.buffer, encoding='utf-8', line_buffering=True)\nprint('é')", "é\n"),
            "wrapper, unflushed": ("sys.stdout = io.TextIOWrapper(sys.stdout.buffer, encoding='utf-8')\nprint('é')", "é\n"),
            "two wrappers": ("for i in 1, 2:\n    sys.stdout = io.TextIOWrapper(sys.stdout.buffer, encoding='utf-8')\n    print(i)", "1\n2\n"),
            "wrapper dropped": ("w = io.TextIOWrapper(sys.stdout.buffer)\nw.write('x')\ndel w\nprint('y')", "xy\n"),
            "wrapper closed": ("w = io.TextIOWrapper(sys.stdout.buffer)\nw.write('x')\nw.close()\nprint('y')", "xy\n"),
            "raw wrapper": ("w = io.TextIOWrapper(io.BufferedWriter(sys.stdout.buffer.raw))\nw.write('x')\ndel w\nprint('y')", "xy\n"),
            "codecs": ("import codecs\nsys.stdout = codecs.getwriter('utf-8')(sys.stdout.buffer)\nprint('é')", "é\n"),
            "detach": ("sys.stdout = io.TextIOWrapper(sys.stdout.detach(), encoding='utf-8')\nprint('é')", "é\n"),
            "detached": ("b = sys.stdout.detach()\nb.write(b'x\\n')\nNone", "x\n"),
            "detached to the end": ("r = sys.stdout.buffer.detach()\nr.write(b'x\\n')\nNone", "x\n"),
            "close": ("print('x')\nsys.stdout.close()", "x\n"),
            "close all": ("print('x')\nsys.stdout.close(); sys.stderr.close(); sys.stdin.close(); sys.__stdout__.close()", "x\n"),
            "with": ("with sys.stdout as f: print('x', file=f)", "x\n"),
            "none": ("print('x'); sys.stdout = None", "x\n"),
            "deleted": ("print('x'); del sys.stdout", "x\n"),
            "closed file": ("import os\nprint('x')\nsys.stdout = open(os.devnull, 'w'); sys.stdout.close()", "x\n"),
            "descriptor closed": ("import os\nprint('x'); os.close(1); os.close(2); os.close(0)", "x\n"),
            "descriptor owned": ("import os\nf = os.fdopen(1, 'w'); f.write('x\\n'); f.close()", "x\n"),
            "redirected": ("import contextlib\nwith contextlib.redirect_stdout(io.StringIO()) as f: print('x')\nprint(f.getvalue(), end='')", "x\n"),
            "writelines": ("sys.stdout.writelines(['a', 'b\\n'])", "ab\n"),
            "print, flush": ("print('a', 'b', file=sys.stdout, flush=True)", "a b\n"),
            "buffer": ("sys.stdout.buffer.write(b'a'); sys.stdout.write('b'); sys.stdout.buffer.write(bytearray(b'c\\n'))\nNone", "abc\n"),
            "fileno": ("import os\nos.write(sys.stdout.buffer.fileno(), b'a\\n'); os.write(sys.stdout.buffer.raw.fileno(), b'b\\n')\nNone", "a\nb\n"),
            "input": ("try: input('? ')\nexcept EOFError: print('EOF')", "? EOF\n"),
            "stdin": ("print([sys.stdin.read(), sys.stdin.readline(), list(sys.stdin), sys.stdin.buffer.read()])", "['', '', [], b'']\n"),
            "exit": ("print('x'); exit()", "x\n"),
            "subprocess": ("import subprocess\nsubprocess.run(['echo', 'x'], stdout=sys.stdout)\nNone", "x\n"),
        }  # fmt: skip
        for name, (code, want) in cases.items():
            with self.subTest(name), Live() as s:
                answer = s.run("import sys, io\n" + code)
                self.assertEqual((answer["stdout"], answer.get("exception")), (want, None), answer)
                for again in "one", "two":
                    answer = s.run("import sys\nprint(%r)\nprint('e', file=sys.stderr)\nsys.stdin.read()" % again)
                    self.assertEqual((answer["stdout"], answer["stderr"], answer["value"]["json"]), (again + "\n", "e\n", ""), answer)

    def test_every_snippet_wraps(self):
        with Live() as s:
            for i in range(4):
                answer = s.run("import sys, io\nsys.stdout = io.TextIOWrapper(sys.stdout.buffer, encoding='utf-8')\nprint('é', %d)" % i)
                self.assertEqual(answer["stdout"], "é %d\n" % i, answer)

    def test_attributes(self):
        attributes = "name mode encoding errors newlines closed".split()
        code = "import sys, io\n[[repr(getattr(f, n)) for n in %r] + [isinstance(f, io.TextIOWrapper), f.isatty(), f.fileno(), f.writable(), f.readable()] for f in (sys.stdin, sys.stdout, sys.stderr)]" % (attributes,)  # fmt: skip
        with Live() as s:
            self.assertEqual(s.value(code), [
                ["'<stdin>'", "'r'", "'utf-8'", "'surrogateescape'", "None", "False", True, False, 0, False, True],
                ["'<stdout>'", "'w'", "'utf-8'", "'backslashreplace'", "None", "False", True, False, 1, True, False],
                ["'<stderr>'", "'w'", "'utf-8'", "'backslashreplace'", "None", "False", True, False, 2, True, False],
            ])  # fmt: skip
            self.assertEqual(s.value("sys.stdout.buffer.name, sys.stdout.buffer.mode, sys.stdout.buffer.raw.mode, sys.stdout.line_buffering"), "('<stdout>', 'wb', 'wb', True)")
            self.assertEqual(s.value("repr(sys.stdout)"), "<_io.TextIOWrapper name='<stdout>' mode='w' encoding='utf-8'>")
            self.assertEqual(s.value("sys.stdout is sys.__stdout__"), True)

    def test_order_of_streams(self):
        with Live() as s:
            answer = s.run("""
                import sys, os
                print('a', end='')
                print('b', file=sys.stderr)
                os.write(1, b'c')
                sys.stdout.buffer.write(b'd')
                print('e', end='', file=sys.stderr)
                print('f')
            """)
            self.assertEqual(answer["output"], [["stdout", "a"], ["stderr", "b\n"], ["stdout", "cd"], ["stderr", "e"], ["stdout", "f\n"]])

    def test_old_streams_work_on(self):
        with Live() as s:
            s.run("import logging, sys\nlogging.basicConfig(format='%(message)s')\nout = sys.stdout\ndef p(x): print(x, file=out)")
            answer = s.run("logging.warning('w'); p(1); sys.stdout.close(); sys.stderr.close()")
            self.assertEqual((answer["stdout"], answer["stderr"]), ("1\n", "w\n"))
            answer = s.run("logging.warning('w'); p(1)")
            self.assertEqual((answer["stdout"], answer["stderr"]), ("1\n", "w\n"))

    def test_redirection_stays(self):
        with Live() as s:
            s.run("import sys, io\nsys.stdout = f = io.StringIO()")
            self.assertEqual(s.run("print(1)")["stdout"], "")
            self.assertEqual(s.value("f.getvalue()"), "1\n")
            self.assertEqual(s.run("sys.stdout = sys.__stdout__\nprint(2)")["stdout"], "2\n")

    def test_closed_descriptor_does_not_hit_a_file(self):
        with Live() as s:
            s.run("import os\nos.close(1)\nf = open('f', 'w')\nf.write('kept'); f.flush()\nf.fileno()")
            s.run("print('x')")
            self.assertEqual(s.value("open('f').read()"), "kept")

    def test_hanging_stream_can_be_interrupted(self):
        with Live() as s:
            s.run("keep = 1\nimport sys, time\nclass F:\n    def write(self, text): pass\n    def flush(self): time.sleep(60)")
            began = time.time()
            s.run("sys.stdout = F()", interrupt=0.3)
            self.assertLess(time.time() - began, 10)
            self.assertEqual(s.value("sys.stdout = sys.__stdout__\nkeep"), 1)

    def test_encoding_of_the_environment(self):
        for asked, want in {
            "latin-1": ["latin-1", "backslashreplace"], "ascii:replace": ["ascii", "replace"], ":strict": ["utf-8", "strict"],
            "none-such": ["utf-8", "backslashreplace"],
        }.items():  # fmt: skip
            with self.subTest(asked), Live(PYTHONIOENCODING="utf-8") as s:
                s.run("import os; os.environ['PYTHONIOENCODING'] = %r; import sys; sys.stdout.detach()" % asked)
                self.assertEqual(s.value("import sys; [sys.stdout.encoding, sys.stdout.errors]"), want)

    def test_limit_ends_a_flood(self):
        with Live() as s:
            s.send(op="execute", id=9, code="while True: print('x' * 100)", stdout=1000, stderr=1000, kill=["stdout"])
            self.assertEqual(s.receive(), {"op": "exceeded", "id": 9, "stream": "stdout"})
            s.send(op="interrupt", id=9)
            answer = s.receive()
            self.assertTrue(answer["interrupted"])
            self.assertEqual(s.run("print('after')")["stdout"], "after\n")

    def test_c_stdio(self):
        with Live() as s:
            for code in (
                "import ctypes\nc = ctypes.CDLL(None)\nc.printf(b'from c\\n')\n0", "c.puts(b'from c')\n0", "c.puts(b'from c'); 1 / 0",
                "c.puts(b'from c'); raise SystemExit",
            ):  # fmt: skip
                self.assertEqual(s.run(code)["stdout"], "from c\n", code)


class Exits(unittest.TestCase):
    def test_codes(self):
        self.maxDiff = None
        with Live() as s:
            for code in (
                "10**30", "-10**30", "300", "-1", "True", "False", "1.5", "'text'", "''", "'a\\n'", "[1]", "None", "2**63", "-2**63", "2**64 + 3", "2**31",
                "type('S', (str,), {})('s')", "type('I', (int,), {})(7)", "type('B', (), {'__str__': lambda self: 1 / 0})()", "'x' * 100000", "(1, 2)",
            ):  # fmt: skip
                with self.subTest(code):
                    plain = subprocess.run([sys.executable, "-c", "raise SystemExit(%s)" % code], capture_output=True, text=True)
                    answer = s.run("raise SystemExit(%s)" % code)
                    # Python 3.13 repeats its error
                    stderr = plain.stderr.partition("Exception ignored on threading shutdown")[0]
                    self.assertEqual((answer["code"], answer["stderr"]), (plain.returncode, stderr))
            self.assertEqual(s.value("1"), 1)


class Variables(unittest.TestCase):
    def test_names_are_read_as_code_reads_them(self):
        for name in "數", "é", "e\u0301", "\ufb01x", "\U0001d400", "ª", "µ", "名前_1", "Ω":
            with self.subTest(name), Live() as s:
                self.assertNotIn("error", s.ask("set", b"5", name=name))
                self.assertEqual(s.value(name + " + 1"), 6)
                s.run(name + " = 7")
                self.assertEqual(s.ask("get", name=name)["value"]["json"], 7)
                self.assertEqual(s.value(name, variables={name: 8}), 8)
                self.assertEqual(len(s.ask("list")["variables"]), 1)

    def test_builtins_stay(self):
        with Live() as s:
            self.assertIn("error", s.ask("set", b"1", name="__builtins__"))
            self.assertEqual(s.value("len('ab')"), 2)


class Files(unittest.TestCase):
    def test_put(self):
        with Live() as s:
            s.run("import os, socket\nos.mkfifo('fifo'); os.mkdir('d'); os.symlink('target', 'link'); os.symlink('fifo', 'to-fifo')\n"
                  "k = socket.socket(socket.AF_UNIX); k.bind('socket')\nos.mkfifo('read'); r = os.open('read', os.O_RDONLY | os.O_NONBLOCK)")  # fmt: skip
            for path in "fifo", "d", "to-fifo", "socket", "read", "/dev/null", "/dev/full", "/proc/self/fd/0", "/proc/version", "fifo/x", "/proc/none":
                with self.subTest(path):
                    self.assertIn("error", s.ask("put", b"x", path=path))
            for path in "new", "link", "a/b/c", "new":
                with self.subTest(path):
                    self.assertNotIn("error", s.ask("put", path.encode(), path=path))
                    self.assertEqual(base64.b64decode(s.ask("file", path=path)["data"]), path.encode())
            self.assertEqual(s.value("open('target').read()"), "link")


class Sources(unittest.TestCase):
    """Tracebacks, warnings and inspect show the lines of the right snippet."""

    def test_each_snippet_has_its_lines(self):
        late = "1\n2\n3\n4\n5\n'WRONG LINE'\n"
        cases = {
            "function": ("def f(x):\n    return x.nope", "f(1)", "return x.nope"),
            "lambda": ("f = lambda x: x.nope", "f(1)", "f = lambda x: x.nope"),
            "generator": ("def g():\n    yield 1\n    1 / 0\ni = g(); next(i)", "next(i)", "1 / 0"),
            "decorator": ("def d(f):\n    def inner(): return f().nope\n    return inner", "@d\ndef h(): return 1\nh()", "def inner(): return f().nope"),
            "cause": ("def f():\n    try: {}['key']\n    except KeyError as e: raise ValueError('v') from e", "f()", "try: {}['key']"),
            "exec": ("def f():\n    exec('1 / 0')", "f()", "exec('1 / 0')"),
            "thread": (
                "import threading\ndef f():\n    raise ValueError('v')", "t = threading.Thread(target=f); t.start(); t.join()", "raise ValueError('v')",
            ),
            "executor": (
                "import concurrent.futures as c\ndef f():\n    1 / 0", "with c.ThreadPoolExecutor(1) as e: e.submit(f).result()", "1 / 0",
            ),
            "timer": ("import threading\ndef f():\n    1 / 0", "t = threading.Timer(0, f); t.start(); t.join()", "1 / 0"),
            "format_exc": ("import traceback\ndef f():\n    try: 1 / 0\n    except Exception: print(traceback.format_exc())", "f()", "try: 1 / 0"),
            "dataclass": ("import dataclasses\n@dataclasses.dataclass\nclass C:\n    x: int\n    def f(self): 1 / 0", "C(1).f()", "def f(self): 1 / 0"),
            "method": ("class C:\n    def f(self):\n        return self.nope", "C().f()", "return self.nope"),
            "warning": ("import warnings\ndef f():\n    warnings.warn('w')", "f()", "warnings.warn('w')"),
            "await": ("async def f():\n    1 / 0", "await f()", "1 / 0"),
            "asyncio.run": ("import asyncio\nasync def f():\n    1 / 0", "asyncio.run(f())", "1 / 0"),
        }  # fmt: skip
        if sys.version_info >= (3, 11):
            group = "def f():\n    es = []\n    try: 1 / 0\n    except Exception as e: es.append(e)\n    raise ExceptionGroup('g', es)"
            cases["group"] = (group, "f()", "try: 1 / 0")
        for name, (define, call, line) in cases.items():
            with self.subTest(name), Live() as s:
                s.run("# one\n# two\n" + define)
                answer = s.run(late + call)
                shown = answer["stderr"] + answer["stdout"]
                self.assertIn(line, shown)
                self.assertNotIn("WRONG LINE", shown)
                self.assertNotIn("harness", shown)
                self.assertNotIn("<job>", shown)

    def test_line_and_source_of_an_exception(self):
        with Live() as s:
            s.run("\n\ndef f(x):\n    return x.nope")
            answer = s.run("1\nf(1)")
            x = answer["exception"]
            self.assertEqual((answer["source"], x["line"], x["source"]), ("<snippet 2>", 4, "<snippet 1>"))
            self.assertTrue(x["traceback"].startswith('Traceback (most recent call last):\n  File "<snippet 2>", line 2, in <module>\n    f(1)\n'), x)
            x = s.run("1\n2\nx = = 4")["exception"]
            self.assertEqual((x["line"], x["source"]), (3, "<snippet 3>"))
            self.assertTrue(x["traceback"].startswith('  File "<snippet 3>", line 3\n    x = = 4\n'), x)
            x = s.run("import asyncio\nawait asyncio.sleep(0)\n1 / 0")["exception"]
            self.assertTrue(x["traceback"].startswith('Traceback (most recent call last):\n  File "<snippet 4>", line 3, in <module>\n    1 / 0\n'), x)

    def test_lines_are_counted_as_python_does(self):
        for text in "a = 1\x0c\nb = 2\n1 / 0", "a = '\u2028'\n\n1 / 0", "a = 1\r\nb = 2\r\n1 / 0", "a = 1\rb = 2\r1 / 0", "a = '\x1d'\n\n1 / 0\n":
            with self.subTest(text), Live() as s:
                x = s.ask("execute", code=text, stdout=LIMIT, stderr=LIMIT)["exception"]
                self.assertEqual(x["line"], 3)
                self.assertIn("\n    1 / 0\n", x["traceback"])

    def test_getsource(self):
        with Live() as s:
            s.run(
                "# comment\ndef f(x):\n    return x\n\nclass C:\n    def m(self):\n        pass\n\nimport dataclasses\n"
                "@dataclasses.dataclass\nclass D:\n    x: int = 1\n"
            )
            s.run("import inspect, pickle\ndef g(): return 2")
            for name, want in {
                "f": "def f(x):\n    return x\n", "C.m": "    def m(self):\n        pass\n", "C": "class C:\n    def m(self):\n        pass\n", "g": "def g(): return 2",
            }.items():  # fmt: skip
                self.assertEqual(s.value("inspect.getsource(%s)" % name).rstrip(), want.rstrip())
            self.assertIn("class D:", s.value("inspect.getsource(D)"))
            self.assertEqual(s.value("pickle.loads(pickle.dumps(f)) is f"), True)
            s.run("def f(x):\n    return 'new'")
            self.assertEqual(s.value("inspect.getsource(f)").rstrip(), "def f(x):\n    return 'new'")
            s.run("import linecache; linecache.clearcache()")
            self.assertEqual(s.value("inspect.getsource(g)").rstrip(), "def g(): return 2")

    def test_old_sources_are_forgotten(self):
        with Live() as s:
            s.run("def f():\n    1 / 0")
            for i in range(6):
                s.run("x = %d\n#%s" % (i, "x" * (1 << 20)))
            x = s.run("f()")["exception"]
            self.assertEqual((x["type"], x["line"], x["source"]), ("ZeroDivisionError", 2, "<snippet 1>"))
            self.assertLess(s.value("import linecache; sum(len(l) for e in linecache.cache.values() if len(e) > 1 for l in e[2])"), 8 << 20)

    def test_warnings_of_snippets_are_apart(self):
        with Live() as s:
            for _ in 1, 2:
                self.assertIn("UserWarning: w\n", s.run("import warnings; warnings.warn('w')")["stderr"])


class Looking(unittest.TestCase):
    """Inspecting a value harms neither the session nor the output of the execution."""

    def test_reprs_that_do_harm(self):
        bodies = {
            "sleep": "import time; time.sleep(60)", "loop": "while True: pass",
            "swallow": "while True:\n            try:\n                while True: pass\n            except BaseException: pass",
            "lock": "import threading; l = threading.Lock(); l.acquire(); l.acquire()", "c": "import ctypes; ctypes.PyDLL(None).sleep(60)",
            "_exit": "import os; os._exit(3)", "exit": "raise SystemExit(3)", "kill": "import os; os.kill(os.getpid(), 9)",
            "memory": "x = bytearray(2 << 30); return str(len(x))", "flood": "while True: print('x' * 1000)", "recursion": "return repr(self)",
            "fork": "import os; os.fork(); return 'C'", "change": "global keep; keep = 6; return 'C'", "raise": "1 / 0", "interrupt": "raise KeyboardInterrupt",
            "not text": "return 5", "segfault": "import ctypes; ctypes.string_at(0)", "close": "import os; os.closerange(0, 256); return 'C'",
            "empty": "return ''", "marker": "return 'timed out'",
        }  # fmt: skip
        want = {"fork": "C", "change": "C", "empty": "", "marker": "timed out"}
        for name, body in bodies.items():
            with self.subTest(name), Live() as s:
                s.run("keep = 5\nclass C:\n    def __repr__(self):\n        {0}\nclass E(Exception):\n    def __str__(self):\n        {0}".format(body))
                for code in "C()", "c = [1, C()]", "raise ValueError(C())", "raise E()":
                    began = time.time()
                    answer = s.run("a = [1]\nprint('made')\n" + code)
                    self.assertLess(time.time() - began, 8)
                    self.assertEqual(answer["stdout"], "made\n")
                    self.assertEqual(answer["variables"]["a"]["repr"], "[1]")
                    if code == "C()":
                        shown = answer["value"]["repr"]
                        self.assertEqual(shown, want[name]) if name in want else self.assertTrue(shown.startswith("<repr "), shown)
                    if code[0] == "r":
                        self.assertIn(", in <module>\n    " + code, answer["exception"]["traceback"])
                        self.assertEqual(answer["exception"]["line"], 3)
                self.assertEqual(s.value("keep"), 5)
                self.assertEqual(s.run("print('after')")["stdout"], "after\n")

    def test_others_are_shown(self):
        with Live() as s:
            answer = s.run("""
                import time
                class Good:
                    def __repr__(self): return 'good'
                class Bad:
                    def __repr__(self): time.sleep(60)
                a, b, c, d, e = Good(), Bad(), Good(), Bad(), [Good(), 1]
                Bad()
            """)
            shown = {k: v["repr"] for k, v in answer["variables"].items()}
            self.assertEqual((shown["a"], shown["c"], shown["e"]), ("good", "good", "[good, 1]"))
            self.assertEqual((shown["b"], shown["d"], answer["value"]["repr"]), ("<repr timed out>",) * 3)

    def test_no_more_than_half_of_the_time_that_is_left(self):
        with Live() as s:
            began = time.time()
            s.run("import time\nclass C:\n    def __repr__(self): time.sleep(60)\nc = [C() for _ in range(3)]; d = C(); e = C()", wall=0.4)
            self.assertLess(time.time() - began, 0.6)

    def test_no_trace(self):
        """An inspection is not visible to the snippet's handlers, processes or calls."""
        with Live() as s:
            s.run("""
                import os, signal
                n, seen = [0], []
                class C:
                    def __repr__(self):
                        n[0] += 1
                        print('shown')
                        return 'C'
                signal.signal(signal.SIGCHLD, lambda *_: seen.append('child'))
                signal.signal(signal.SIGALRM, lambda *_: seen.append('alarm'))
                signal.alarm(100)
                c = [C()]
            """)
            answer = s.run("c.append(C()); print('x')")
            self.assertEqual((answer["stdout"], answer["variables"]["c"]["repr"]), ("x\n", "[C, C]"))
            self.assertEqual(s.value("[n, seen, signal.alarm(0) > 0]"), [[0], [], True])
            self.assertEqual(s.run("os.waitpid(-1, 0)")["exception"]["type"], "ChildProcessError")

    def test_variables_and_their_values(self):
        with Live() as s:
            s.run("""
                import time
                class C:
                    def __repr__(self): time.sleep(60)
                c, d = C(), 1
            """)
            self.assertEqual(s.ask("get", name="c")["value"]["repr"], "<repr timed out>")
            listed = s.ask("list")["variables"]
            self.assertEqual((listed["c"]["repr"], listed["d"]["repr"]), ("<repr timed out>", "1"))

    def test_plain_values_take_no_process(self):
        with Live() as s:
            s.run("import os\nforks = []\nos.register_at_fork(before=lambda: forks.append(1))")
            s.run("""
                class P: pass
                def f(): pass
                x = [1, 'a', (2.5, None), {'k': {1}}, P(), P, f, len, b'', range(3)]
                raise ValueError('plain', 1)
            """)
            s.run("class E(Exception): pass\nraise E('x') from KeyError('y')")
            self.assertEqual(s.value("forks"), [])

    def test_without_processes(self):
        with Live() as s:
            s.run("""
                import os, time
                class C:
                    def __repr__(self): return 'C'
                class D:
                    def __repr__(self): time.sleep(60)
                def fork(): raise OSError
                os.fork = fork
            """)
            self.assertEqual(s.run("C()")["value"]["repr"], "C")
            self.assertEqual(s.run("D()")["value"]["repr"], "<repr timed out>")


class Await(unittest.TestCase):
    """A snippet may await at its top level, on a loop that the session keeps."""

    def test_forms(self):
        define = """
            import asyncio
            class M:
                async def __aenter__(self): return 3
                async def __aexit__(self, *_): pass
            async def g():
                for i in 1, 2:
                    await asyncio.sleep(0)
                    yield i
            async def f(x):
                await asyncio.sleep(0)
                return x
        """
        for code, want in {
            "await f(1)": 1, "x = await f(2)\nx": 2, "async with M() as m: pass\nm": 3, "r = []\nasync for i in g(): r.append(i)\nr": [1, 2],
            "[i async for i in g()]": [1, 2], "asyncio.run(f(4))": 4, "x = await f(1)\nasyncio.run(f(x + 4))": 5, "asyncio.run(f(1)) + await f(5)": 6,
            "await asyncio.gather(f(1), f(2))": [1, 2], "await asyncio.wait_for(f(7), 5)": 7, "(await f(1), await f(2))[1]": 2,
            "from __future__ import annotations\nawait f(8)": 8, "def h(): return asyncio.run(f(9))\nawait f(1)\nh()": 9,
            "l = asyncio.new_event_loop()\nl.run_until_complete(f(10))": 10,
        }.items():  # fmt: skip
            with self.subTest(code), Live() as s:
                s.run(define)
                self.assertEqual(s.value(code), want)
                self.assertEqual(s.value("await f('after')"), "after")

    def test_tasks_live_across_snippets(self):
        with Live() as s:
            s.run("""
                import asyncio
                q = asyncio.Queue()
                async def work():
                    while True:
                        await q.put(await asyncio.sleep(0, 'x'))
                t = asyncio.create_task(work())
                await asyncio.sleep(0)
            """)
            self.assertEqual(s.run("asyncio.run(asyncio.sleep(0))").get("exception"), None)
            self.assertEqual(s.value("await q.get()"), "x")

    def test_interrupt(self):
        for code in (
            "await asyncio.sleep(60)", "while True: pass\nawait x", "while True: await asyncio.sleep(0)",
            "try: await asyncio.sleep(60)\nexcept asyncio.CancelledError: await asyncio.sleep(60)", "asyncio.run(asyncio.sleep(60))\nawait x",
        ):  # fmt: skip
            with self.subTest(code), Live() as s:
                s.run("import asyncio\nkeep = 1")
                began = time.time()
                answer = s.run(code, interrupt=0.3)
                self.assertTrue(answer["interrupted"], answer)
                self.assertLess(time.time() - began, 5)
                self.assertEqual(s.value("await asyncio.sleep(0, keep)"), 1)

    def test_exit_and_fork(self):
        with Live() as s:
            self.assertEqual(s.run("import asyncio\nawait asyncio.sleep(0)\nraise SystemExit(3)")["code"], 3)
            answer = s.run("import os\npid = os.fork()\nawait asyncio.sleep(0)\nif pid: os.wait()\nprint('child' if pid == 0 else 'parent')")
            self.assertEqual(answer["stdout"], "child\nparent\n", answer)
            self.assertEqual(s.value("await asyncio.sleep(0, 1)"), 1)

    def test_errors_stay_python_s(self):
        with Live() as s:
            for code, message in {
                "def f(): await x": "'await' outside async function", "await": "invalid syntax",
                "async def f(): pass\nreturn await f()": "'return' outside function",
            }.items():  # fmt: skip
                x = s.run(code)["exception"]
                self.assertEqual((x["type"], message in x["message"]), ("SyntaxError", True), x)


if __name__ == "__main__":
    unittest.main()
