"""Returns true values."""

def solve(x): return True
