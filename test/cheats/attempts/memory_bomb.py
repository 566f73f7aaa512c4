"""Takes all memory."""

def solve(x):
    v = []
    while True: v.append(bytearray(1 << 24))
