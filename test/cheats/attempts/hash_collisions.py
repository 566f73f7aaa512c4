"""Returns a set whose members all collide."""

def solve(x): return {i * ((1 << 61) - 1) for i in range(20000)}
