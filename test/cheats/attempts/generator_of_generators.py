"""Yields generators, in the hope that something gives way further down."""

def nested(n):
    while True: yield nested(n + 1)

def solve(x, how="str", *more): return nested(0)
