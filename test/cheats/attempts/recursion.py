"""Recurses without end."""

def solve(x): return solve(x)
