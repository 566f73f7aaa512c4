"""A class whose class decides what is an instance, and what it equals."""

class Meta(type):
    def __instancecheck__(cls, other): return True
    def __eq__(cls, other): return True
    def __getattr__(cls, name): return lambda *a: Vault()
    def __call__(cls, *a): return cls
    __hash__ = None

class Vault(metaclass=Meta): pass
