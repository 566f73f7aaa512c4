"""Stops its process."""

import os, signal
def solve(x):
    os.kill(os.getpid(), signal.SIGSTOP)
