"""Has an object of another class, whose fields are methods."""

class Node:
    @property
    def data(self): return lambda *a: True
    def __getattr__(self, name): return self

class Vault:
    def __init__(self, *a): self.head = Node()
