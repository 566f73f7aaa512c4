"""Raises AssertionErrors, as if the check had failed already."""

def solve(x, how="str", *more):
    if how == "visit":
        try: more[0]("0")
        except AssertionError: raise AssertionError("it is right")
    raise AssertionError
