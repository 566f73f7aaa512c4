"""Returns a small object that is large when written down."""

def solve(x):
    v = [1]
    for _ in range(60): v = [v, v]
    return v
