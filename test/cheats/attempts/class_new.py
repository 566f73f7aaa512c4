"""A class that makes other things than its instances."""

class Other:
    def __getattr__(self, name): return lambda *a: self
    def __eq__(self, other): return True
    __hash__ = None

class Vault:
    def __new__(cls, *a): return Other()
