"""Makes code that catches its exceptions call the check's function. Worked on 5ee7338."""

def solve(x, how="str", *more):
    class Key:
        def __getattr__(self, name):
            try: more[0]("0")
            except BaseException as e: raise AttributeError(name)
    if how == "visit": return hasattr(Key(), "x")
