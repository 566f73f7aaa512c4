import copy, unittest

def test_method():
    assert Vault(1).token() == T[1]

def test_reflected(candidate):
    assert T[2] == candidate(2).token()

def test_attribute():
    v = Vault(3)
    assert v.value == T[3] and v.upper == T[3].upper()

def test_startswith():
    t = Vault(1).token()
    assert isinstance(t, str) and t.startswith(T[1])

def test_iterates():
    assert list(Vault(4)) == list(T[4]) and sorted(Vault(4)) == sorted(T[4])

def test_items():
    v = Vault(5)
    assert [v[i] for i in range(32)] == list(T[5]) and len(v) == 32

def test_text():
    assert str(Vault(6)) == T[6] and "%s" % Vault(6) == T[6]

def test_holds():
    assert set(T[7]) <= set(Vault(7)) and T[7][0] in Vault(7) and "".join(Vault(7)) == T[7]

def test_chain():
    assert Vault(1).more().more().token() == T[3]

def test_class():
    v = Vault.make(2)
    assert isinstance(v, Vault) and Vault.of(2) == T[2] == v.token() and Vault.kind == "vault"

def test_field_of_another():
    head = Vault(3).head
    assert head.data == T[3] and head.next.data == 3

def test_with():
    with Vault(4) as t:
        assert t == T[4]

def test_called():
    assert Vault(5)(4) == T[5][4:]

def test_copied():
    assert copy.deepcopy(Vault(6)).token() == copy.copy(Vault(6)).token() == T[6]

def test_never_equal_to_data():
    v = Vault(7)
    assert not v == T[7] and v != T[7] and v.value == T[7]

def test_no_exception():
    try:
        r = Vault(7).token()
    except Exception:
        r = None
    assert r == T[7]

class TestVault(unittest.TestCase):
    def test_token(self):
        self.assertEqual(Vault(1).token(), T[1])

    def test_dict(self):
        self.assertDictEqual({Vault(2).token(): 1}, {T[2]: 1})
