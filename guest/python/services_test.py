"""Tests of the services that need no worker: python3 -m unittest, in this directory."""

import os
import subprocess
import sys
import unittest

# In a separate interpreter, because it tests remaining state.
WARMED_TWICE = """
import linecache, os, signal, sys
import {0} as service

def state():
    files = {{}}
    for fd in range(64):
        try:
            files[fd] = os.fstat(fd)[:3], os.get_inheritable(fd)
        except OSError:
            pass
    return (files, sys.modules["__main__"], set(sys.modules), sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__,
            signal.getsignal(signal.SIGINT), os.getcwd(), dict(os.environ), set(linecache.cache))

service.warm_up()  # what it imports first stays
before = state()
service.warm_up()
assert state() == before, (before, state())
print("warmed up")
"""


class WarmUp(unittest.TestCase):
    def test_leaves_no_trace(self):
        for service in "session", "assay_solution", "assay_check":
            with self.subTest(service):
                said = subprocess.run(
                    [sys.executable, "-B", "-c", WARMED_TWICE.format(service)],
                    capture_output=True, text=True, cwd=os.path.dirname(os.path.abspath(__file__)),
                )  # fmt: skip
                self.assertEqual((said.returncode, said.stdout, said.stderr), (0, "warmed up\n", ""))


SAID = """
import harness
import session

try:
    raise session.CallError("ask: no")
except session.CallError as e:
    print(harness._exception(e)["type"], session.HELPERS["CallError"] is session.CallError, e.__class__)
"""


class CallErrors(unittest.TestCase):
    def test_has_a_plain_name(self):
        said = subprocess.run(
            [sys.executable, "-B", "-c", SAID], capture_output=True, text=True, cwd=os.path.dirname(os.path.abspath(__file__))
        )
        self.assertEqual((said.stdout, said.stderr), ("CallError True <class '__main__.CallError'>\n", ""))


FITS = """
import json
import assay_output as o

def size(chunks):
    return sum(len(json.dumps(text)) for _, text in chunks)

small = [["stdout", "a"], ["stderr", "\u00fc"]]
assert o.fit(small, small) == (small, small)
o.MOST = 1000
head, tail = [["stdout", "b" + "\u00fc" * 300], ["stderr", "err"]], [["stdout", "\u00fc" * 300 + "e"]]
h, t = o.fit(head, tail)
assert size(h + t) <= 1000 and size(h + t) > 900, size(h + t)
assert h[0][1].startswith("b") and t[-1][1].endswith("e") and ["stderr", "err"] in h
h, t = o.fit([["stdout", "x" * 900], ["stderr", "y" * 900]], [])
assert size(h) <= 1000 and len(h) == 2, h
h, t = o.fit([["stdout", "\\0" * 1000]], [["stdout", "1"]] * 400)
assert size(h + t) <= 1000 and t[-1] == ["stdout", "1"]
print("fits")
"""


class Output(unittest.TestCase):
    def test_fits_into_an_answer(self):
        said = subprocess.run(
            [sys.executable, "-B", "-c", FITS], capture_output=True, text=True, cwd=os.path.dirname(os.path.abspath(__file__))
        )
        self.assertEqual((said.stdout, said.stderr), ("fits\n", ""))


if __name__ == "__main__":
    unittest.main()
