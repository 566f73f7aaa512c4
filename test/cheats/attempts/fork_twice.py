"""Forks, so that two processes answer."""

import os
def solve(x):
    os.fork()
    return x
