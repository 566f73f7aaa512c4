# tries: end with a value, an exception and variables that are huge
# outcome: exception|out_of_memory
class Huge(Exception):
    def __str__(self):
        return "x" * (30 << 20)
    __repr__ = __str__
a = "y" * (30 << 20)
b = [a] * 1000
raise Huge()
