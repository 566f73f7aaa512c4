"""Returns NotImplemented, which is true."""

def solve(x): return NotImplemented
