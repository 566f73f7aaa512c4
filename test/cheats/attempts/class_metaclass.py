"""A class whose metaclass decides which objects are instances and equal to it."""

class Meta(type):
    def __instancecheck__(cls, other): return True
    def __eq__(cls, other): return True
    def __getattr__(cls, name): return lambda *a: Vault()
    def __call__(cls, *a): return cls
    __hash__ = None

class Vault(metaclass=Meta): pass
