"""Stores the value that a cached property of the setup would have computed. Worked on 5ee7338."""

def solve(x, how="str", *more):
    if how == "sealed":
        s = Sealed("0", more[0])
        s.__dict__["whole"] = True
        return s
