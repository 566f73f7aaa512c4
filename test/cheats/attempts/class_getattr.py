"""A class whose instances have every attribute, all of them themselves."""

class Vault:
    kind = "vault"
    def __init__(self, *a): pass
    def __getattr__(self, name):
        if name.startswith("__"): raise AttributeError(name)
        return self
    def __call__(self, *a): return self
    def __bool__(self): return True
    def __eq__(self, other): return True
    __hash__ = None
