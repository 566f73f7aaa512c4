"""Returns a list that contains itself."""

def solve(x):
    v = []
    v.append(v)
    return v
