"""Yields what the check sends: there is nothing to know."""

def solve(x, how="str", *more):
    got = yield
    while True: got = yield got
