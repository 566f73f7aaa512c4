"""Hides a method of an object that is inside of an argument. Worked on 5ee7338."""

def solve(x, how="str", *more):
    if how == "fill":
        inner = Point(0, 0)
        inner.same = lambda other: True
        more[0].same = inner.same
        more[0].x = inner
