import contextlib, hashlib

def solve(x, how="str", *more):
    t = T[x]
    if how == "str": return t
    if how == "set": return {t}
    if how == "column": return Column(list(t))
    if how == "frame": return Frame(t)
    if how == "point": return Point(t, x)
    if how == "pair": return Pair(t[:9], t[9:])
    if how == "sealed": return Sealed(t, more[0])
    if how == "letters": return (c for c in t)
    if how == "function": return lambda i: t[i:]
    if how == "error": raise Wrong(t)
    if how == "manager": return manager(t)
    if how == "visit": return [more[0](t), 1][1]
    if how == "fill": more[0].x, more[0].y = t, x
    if how == "drain": return [next(more[0]), more[1](t), next(more[0], None)][0]
    if how == "view": return {t: x}.keys()

@contextlib.contextmanager
def manager(t):
    yield t

if __name__ == "__main__":
    print(solve(int(input())))
