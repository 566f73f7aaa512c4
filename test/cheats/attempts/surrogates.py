"""Returns text that is no text."""

def solve(x): return "\ud800" * 16
