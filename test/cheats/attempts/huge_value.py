"""Returns a hundred megabytes."""

def solve(x): return "0" * (100 << 20)
