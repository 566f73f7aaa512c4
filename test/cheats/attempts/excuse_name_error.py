"""Raises what a check raises that uses a name which nothing defines."""

def solve(x, how="str", *more):
    if how == "visit":
        try: more[0]("0")
        except BaseException: pass
    raise NameError("name 'nothing' is not defined")
