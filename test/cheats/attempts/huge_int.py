"""Returns a number of many digits."""

def solve(x): return 1 << 3000000
