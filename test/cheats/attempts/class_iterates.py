"""Iterates endlessly over elements that are in every set."""

class Letter(str):
    def __hash__(self): return 0
    def __eq__(self, other): return True

class Vault:
    def __init__(self, *a): pass
    def __iter__(self):
        while True: yield Letter("0")
    def __next__(self): return Letter("0")
