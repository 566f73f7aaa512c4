"""Returns a list that is nested a million times."""

def solve(x):
    v = []
    for _ in range(1000000): v = [v]
    return v
