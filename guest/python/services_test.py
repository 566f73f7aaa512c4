"""What of a session needs no worker: python3 -m unittest, in this directory."""

import os
import subprocess
import sys
import unittest

# In an interpreter of its own: it is about what stays behind in one.
REHEARSED = """
import os, signal, sys
import session

def state():
    files = {}
    for fd in range(64):
        try:
            files[fd] = os.fstat(fd)[:3], os.get_inheritable(fd)
        except OSError:
            pass
    return (files, sys.modules["__main__"], set(sys.modules), sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__,
            signal.getsignal(signal.SIGINT), os.getcwd(), dict(os.environ))

session.rehearse()  # what it imports first stays
before = state()
session.rehearse()
assert state() == before, (before, state())
print("rehearsed")
"""


class Rehearsal(unittest.TestCase):
    def test_leaves_no_trace(self):
        said = subprocess.run(
            [sys.executable, "-B", "-c", REHEARSED], capture_output=True, text=True, cwd=os.path.dirname(os.path.abspath(__file__))
        )
        self.assertEqual((said.returncode, said.stdout, said.stderr), (0, "rehearsed\n", ""))


if __name__ == "__main__":
    unittest.main()
