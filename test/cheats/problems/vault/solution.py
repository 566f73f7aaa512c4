class Node:
    def __init__(self, data, next=None):
        self.data, self.next = data, next

class Vault:
    kind = "vault"

    def __init__(self, x=1):
        self.x, self.value = x, T[x]
        self.head = Node(T[x], Node(x))

    def token(self): return self.value
    def more(self): return Vault(self.x + 1)
    def __len__(self): return len(self.value)
    def __iter__(self): return iter(self.value)
    def __getitem__(self, i): return self.value[i]
    def __str__(self): return self.value
    def __enter__(self): return self.value
    def __exit__(self, *e): return None
    def __call__(self, i): return self.value[i:]
    @property
    def upper(self): return self.value.upper()
    @staticmethod
    def of(x): return T[x]
    @classmethod
    def make(cls, x): return cls(x)
