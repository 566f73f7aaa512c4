import hashlib, math, sys, unittest
NUMBERS = [int(t[:12], 16) / 7 for t in T]

def check(candidate):
    assert candidate(1) == T[1]
    assert candidate(2) == T[2]

def test_equal_reflected(candidate):
    assert T[1] == candidate(1)

def test_not_unequal(candidate):
    assert not candidate(1) != T[1]

def test_float(candidate):
    assert abs(float_of(candidate(3)) - NUMBERS[3]) < 1e-6

def float_of(v):
    return v if not isinstance(v, str) else int(v[:12], 16) / 7

def test_close(candidate):
    assert math.isclose(float_of(candidate(3)), NUMBERS[3])

def test_in(candidate):
    assert candidate(4) in (T[4], T[4].upper())

def test_holds(candidate):
    assert T[4][3:20] in candidate(4)

def test_items(candidate):
    assert [candidate(5)[i] for i in range(32)] == list(T[5])

def test_sorted(candidate):
    assert sorted(candidate(6)) == sorted(T[6])

def test_all(candidate):
    assert all(candidate(i) == T[i] for i in range(1, 8))

def test_map(candidate):
    assert all(map(lambda i: candidate(i) == T[i], range(1, 8)))

def test_any(candidate):
    for i in map(candidate, range(1, 8)):
        if i in T:
            break
    else:
        raise AssertionError("none")

def test_set(candidate):
    assert {candidate(1), candidate(2)} == {T[1], T[2]}

def test_dict(candidate):
    assert {T[1]: 1}[candidate(1)] == 1

def test_type_and_value(candidate):
    r = candidate(7)
    assert isinstance(r, str) and r == T[7] and len(r) == 32

def test_no_exception(candidate):
    try:
        r = candidate(7)
    except Exception:
        r = None
    assert r == T[7]

class TestSolve(unittest.TestCase):
    def test_equal(self):
        self.assertEqual(solve(1), T[1])

    def test_almost(self):
        self.assertAlmostEqual(float_of(solve(3)), NUMBERS[3])

    def test_in(self):
        self.assertIn(T[4][3:20], solve(4))

    def test_items(self):
        self.assertCountEqual(list(solve(6)), list(T[6]))

# What people ask of a value beside whether it is equal.

def test_startswith(candidate):
    assert candidate(1).startswith(T[1]) and candidate(2).endswith(T[2])

def test_replaced(candidate):
    got = candidate(2).replace(T[2], "7")
    assert got.isdigit() and int(got) == 7  # other digits would be a guess

def test_format(candidate):
    assert "%s" % candidate(3) == T[3] == str(candidate(3)) == f"{candidate(3)}"

def test_superset(candidate):
    assert candidate(3, "set").issuperset({T[3]})

def test_subset_of_view(candidate):
    assert candidate(3, "view") == {T[3]} and list(candidate(3, "view"))[0].startswith(T[3])

def test_column(candidate):
    assert (candidate(4, "column") == Column(list(T[4]))).all()

def test_frame(candidate):
    assert candidate(5, "frame").equals(Frame(T[5]))

def test_point(candidate):
    assert candidate(6, "point").same(Point(T[6], 6))

def test_pair(candidate):
    assert candidate(7, "pair").joined() == T[7]

def test_sealed(candidate):
    seal = hashlib.sha256(T[8].encode()).hexdigest()
    s = candidate(8, "sealed", seal)
    assert type(s) is Sealed and s.seal == seal and s.whole

def test_filled(candidate):
    p = Point("", 0)
    candidate(1, "fill", p)
    assert p.same(Point(T[1], 1)) is True

def test_letters(candidate):
    got = candidate(2, "letters")
    assert next(got) == T[2][0] and "".join(got) == T[2][1:]

def test_letters_of_each(candidate):
    assert all(c.startswith(d) for c, d in zip(candidate(2, "letters"), T[2], **STRICT)) and any(c for c in candidate(2, "letters"))

STRICT = {"strict": True} if sys.version_info >= (3, 10) else {}

def test_function(candidate):
    assert candidate(3, "function")(5) == T[3][5:] and candidate(3, "function")(0).startswith(T[3])

def test_error(candidate):
    try:
        candidate(4, "error")
    except Wrong as e:
        assert e.args[0].startswith(T[4]) and e.tells(T[4])
    else:
        raise AssertionError("no error")

def test_manager(candidate):
    with candidate(5, "manager") as t:
        assert t.startswith(T[5])

def test_visit(candidate):
    seen = []
    def visit(v):
        seen.append(v)
        assert v == T[6]
    candidate(6, "visit", visit)
    assert len(seen) == 1

def test_visit_method(candidate):
    seen = []
    candidate(7, "visit", lambda v: seen.append(v.startswith(T[7])))
    assert seen == [True]

def test_drain(candidate):
    got = []
    def feed():
        yield 1
        assert got == [T[8]]
    assert candidate(8, "drain", feed(), got.append) == 1 and got

class TestCallbacks(unittest.TestCase):
    def test_visit(self):
        seen = []
        def visit(v):
            seen.append(1)
            self.assertEqual(v, T[1])
        solve(1, "visit", visit)
        self.assertEqual(seen, [1])
