# tries: end by an exception whose text, cause and notes have no end
# outcome: exception|out_of_memory
# policy: {"memory": "256Mi"}
class E(Exception):
    def __str__(self):
        return "x" * (64 << 20)
    __repr__ = __str__
def deep(n):
    try:
        if n:
            deep(n - 1)
        raise E(n)
    except E as e:
        e.add_note("n" * 100000)
        raise E("y" * 100000) from e
deep(100)
