"""Yields the values that the check sends, without any answer."""

def solve(x, how="str", *more):
    got = yield
    while True: got = yield got
