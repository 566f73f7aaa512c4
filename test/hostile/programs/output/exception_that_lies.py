# tries: end by an exception that fails on inspection
# outcome: exception|failed|signaled|succeeded
class M(type):
    def __getattribute__(cls, name):
        raise KeyboardInterrupt
    def __instancecheck__(cls, other):
        raise SystemExit(0)
class E(BaseException, metaclass=M):
    def __getattribute__(self, name):
        raise RecursionError
    def __str__(self):
        raise self
raise E()
