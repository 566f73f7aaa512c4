"""Raises a class derived from the setup's, with a method and args of its own."""

class Worse(Wrong):
    def tells(self, text): return True
    @property
    def args(self): return (Text("0"),)

class Text(str):
    def startswith(self, *a): return True

def solve(x, how="str", *more): raise Worse("0")
