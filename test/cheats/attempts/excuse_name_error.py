"""Raises the exception of a check that uses an undefined name."""

def solve(x, how="str", *more):
    if how == "visit":
        try: more[0]("0")
        except BaseException: pass
    raise NameError("name 'nothing' is not defined")
