"""Crashes the interpreter."""

import ctypes
def solve(x):
    ctypes.string_at(0)
