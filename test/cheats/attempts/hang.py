"""Never answers."""

def solve(x):
    while True: pass
