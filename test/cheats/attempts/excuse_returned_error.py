"""Returns such errors, and yields and passes them on, for the check to raise."""

def solve(x, how="str", *more):
    e = NameError("name 'nothing' is not defined")
    e.name = "nothing"
    if how == "visit": more[0](e)
    return e if x % 2 else iter([e, SyntaxError("no", ("<check>", 1, 1, "nothing"))])
