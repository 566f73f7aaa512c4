"""Returns what is true."""

def solve(x): return True
