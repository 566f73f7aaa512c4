"""Raises a subclass of what ends a loop in silence."""

class S(StopIteration): pass
def solve(x): raise S
