"""Returns instances of the setup's classes that were never initialized."""

def solve(x, how="str", *more):
    return {"column": Column, "frame": Frame, "sealed": Sealed}.get(how, Point).__new__({"column": Column, "frame": Frame, "sealed": Sealed}.get(how, Point))
