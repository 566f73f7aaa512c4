"""Hides a method with a function of the check that it received, and that returns true values."""

def solve(x, how="str", *more):
    global kept
    if how in ("visit", "drain"): kept = more[-1]
    p = more[0] if how == "fill" else Point(0, 0)
    p.same = kept
    return p
kept = None
