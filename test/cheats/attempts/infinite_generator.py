"""Returns a generator without end."""

def solve(x):
    while True: yield True
