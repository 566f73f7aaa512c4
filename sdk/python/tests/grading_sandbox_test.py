"""The grading sandbox: arguments, methods and fields of the table in docs/integrations/rewards.md, by test."""

from __future__ import annotations

import json
import math
import time
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import assay
from assay.models import ResultTestsCasesItem as Case

TESTS = {
    "function": "add",
    "cases": [
        {"name": "small", "args": [1, 2], "expected": 3},
        {"args": [5, 0], "expected": 5, "weight": 3},
        {"args": ["a", 1], "expected_exception": "TypeError"},
    ],
    "check": "def check(candidate):\n    assert candidate(2, 2) == 4\n",
    "stdio": [{"stdin": "1 2", "stdout": "3"}],
}
WRONG = "import sys\ndef add(a, b):\n    print('hello')\n    return a - b\nsys.stderr.write('oh')\nprint(5)\n"
RIGHT = "def add(a, b):\n    return a + b\n"
ONE = {"function": "add", "cases": [{"args": [1, 2], "expected": 3}]}
SLOW = {"wall": "700ms", "memory": "64Mi"}


@pytest.fixture(scope="module")
def rewards(url: str) -> Iterator[assay.Rewards]:
    """Of a solution that is partly wrong, one that is right, one that raises and one that does not end."""
    solutions = [
        WRONG,
        RIGHT + "import sys\nif sys.stdin.read(): print(3)",
        "def add(a, b):\n    return a[b]",
        "while True: pass",
    ]
    labels = [{"problem": p, "model": "m"} for p in ("sum", "sum", "other", "other")]
    with assay.Client(url) as client:
        yield client.grade(solutions, TESTS, labels=labels, policy={"wall": "4s"})


@pytest.fixture
def wrong(rewards: assay.Rewards) -> assay.Result:
    result = rewards.results[0]
    assert result
    return result


@pytest.fixture
def cases(wrong: assay.Result) -> list[Case]:
    assert wrong.record.tests
    return wrong.record.tests.cases


def one(client: assay.Client, code: str, tests: dict[str, Any], **options: Any) -> assay.Result:
    (result,) = client.grade([code], tests, **options).results
    assert result
    return result


def case(client: assay.Client, code: str, tests: dict[str, Any], **options: Any) -> Case:
    record = one(client, code, tests, **options).record
    assert record.tests
    return record.tests.cases[0]


# Submitted code.


def test_solutions_and_tests(client: assay.Client) -> None:
    assert client.grade([RIGHT, WRONG], ONE) == [1, 0]
    assert client.grade((s for s in [RIGHT, "def sub(a, b): return a - b"]), [ONE, {**ONE, "function": "sub"}]) == [
        1,
        0,
    ]


def test_what_is_no_program(client: assay.Client) -> None:
    """A solution that is empty, or cannot be text of a program, has reward 0, and the others their own."""
    rewards = client.grade(["", RIGHT, "x = '\0'", "#" * (2 << 20), "def add(: x"], ONE)
    assert rewards == [0, 1, 0, 0, 0]
    assert [r.message for r in rewards.results if r][0::2][:2] == [
        "the solution must not be empty",
        "the solution must not contain NUL bytes",
    ]


def test_setup(client: assay.Client) -> None:
    assert client.grade(["def add(a, b): return total([a, b])"], {**ONE, "setup": "total = sum"}) == [1]


def test_stop_on_failure(client: assay.Client) -> None:
    tests = {**ONE, "cases": ONE["cases"] * 3, "stop_on_failure": True}
    record = one(client, WRONG, tests).record
    assert record.tests
    assert [c.outcome for c in record.tests.cases][1:] == ["canceled"] * 2


def test_reward_of_result(client: assay.Client) -> None:
    seconds: Callable[[assay.Result], float] = lambda r: r.score - r.record.usage.wall_ms / 1e6  # type: ignore # noqa: E731
    (reward,) = client.grade([RIGHT], ONE, reward=seconds)
    assert reward is not None
    assert 0.9 < reward < 1


def test_policy_wall(client: assay.Client) -> None:
    result = one(client, "import time\ndef add(a, b): time.sleep(9)", ONE, policy=SLOW)
    assert (result.score, result.record.tests.cases[0].outcome) == (0, "timed_out")  # type: ignore[union-attr]


def test_policy_memory(client: assay.Client) -> None:
    found = case(client, "def add(a, b): return len(bytearray(1 << 29))", ONE, policy={"memory": "64Mi"})
    assert found.outcome == "out_of_memory"


def test_case_wall(client: assay.Client) -> None:
    tests = {"function": "add", "cases": [{"args": [1, 2], "expected": 3, "wall": "300ms"}, *ONE["cases"]]}
    record = one(client, "import time\ndef add(a, b): time.sleep(1); return a + b", tests).record
    assert record.tests
    first, second = record.tests.cases
    assert first.limits
    assert (first.outcome, first.limits.wall, second.passed) == ("timed_out", "300ms", True)


def test_case_memory(client: assay.Client) -> None:
    code = "x = len(bytearray(1 << 27)); print(3)"
    small, large = ({"stdio": [{"stdin": "", "stdout": "3", **m}]} for m in ({"memory": "32Mi"}, {}))
    assert client.grade([code] * 2, [small, large]) == [0, 1]


def test_image(client: assay.Client) -> None:
    assert client.grade([RIGHT], ONE, image="python") == [1]
    assert client.grade([RIGHT], ONE, image="none-such", attempts=1, on_error="none") == [None]


def test_key(client: assay.Client) -> None:
    """Under the same key, nothing is run twice."""
    key = str(uuid.uuid4())
    first, again = (client.grade([RIGHT, WRONG], ONE, key=key) for _ in range(2))
    assert [r.id for r in first.results if r] == [r.id for r in again.results if r]


def test_name_and_label_caps(client: assay.Client) -> None:
    name = str(uuid.uuid4())
    options = {"labels": [{"problem": "p"}] * 2, "label_caps": {"problem": 1}, "chunk": 2}
    assert client.grade([RIGHT] * 2, ONE, name=name, **options) == [1, 1]  # type: ignore[arg-type]
    assert [b.total for b in client.api.list_batches(limit=20).batches if b.name == name] == [2]


def test_progress(client: assay.Client) -> None:
    seen: list[tuple[int, int | None]] = []
    client.grade([RIGHT] * 3, ONE, progress=lambda done, total, _: seen.append((done, total)))
    assert seen == [(1, 3), (2, 3), (3, 3)]


# Rewards.


def test_list_of_rewards(rewards: assay.Rewards) -> None:
    assert rewards == [4 / 7, 1, 0, 0]


def test_results_and_labels(rewards: assay.Rewards) -> None:
    assert [r.outcome for r in rewards.results if r] == ["failed", "succeeded", "failed", "failed"]
    assert [x["problem"] for x in rewards.labels] == ["sum", "sum", "other", "other"]


def test_counts(rewards: assay.Rewards) -> None:
    assert (rewards.infra, rewards.broken, rewards.retried) == (0, 0, 0)


def test_mean(rewards: assay.Rewards) -> None:
    assert rewards.mean == pytest.approx(sum(x or 0 for x in rewards) / 4)


def test_pass_at_k(rewards: assay.Rewards) -> None:
    assert [rewards.pass_at_k(k) for k in (1, 2)] == [0.25, 0.5]
    with pytest.raises(ValueError, match="k"):
        rewards.pass_at_k(3)


def test_groups(rewards: assay.Rewards) -> None:
    assert {k: [r.ok for r in g] for k, g in rewards.groups("problem")} == {
        "sum": [False, True],
        "other": [False, False],
    }


def test_outcomes(rewards: assay.Rewards) -> None:
    assert rewards.outcomes("problem") == {"sum": {"failed": 1, "succeeded": 1}, "other": {"failed": 2}}
    assert rewards.outcomes() == {"": {"failed": 3, "succeeded": 1}}


def test_failures(rewards: assay.Rewards) -> None:
    """Failure classes: the type of the exception, else the outcome."""
    assert sum(rewards.failures().values()) == 3
    assert "TypeError" in rewards.failures()


def test_to_pandas(rewards: assay.Rewards) -> None:
    table = rewards.to_pandas()
    assert list(table["reward"]) == rewards
    assert list(table["label.problem"]) == ["sum", "sum", "other", "other"]


# A result.


def test_outcome_and_score(rewards: assay.Rewards, wrong: assay.Result) -> None:
    assert (wrong.outcome, wrong.ok, wrong.score, wrong.infra, wrong.error) == ("failed", False, 4 / 7, False, None)
    assert wrong.message == "2 of 5 cases passed"
    assert wrong.summary.endswith("failed: 2 of 5 cases passed")
    with pytest.raises(assay.ProgramError):
        wrong.check()
    right = rewards.results[1]
    assert right
    assert right.check().score == 1


def test_stdout_and_stderr(wrong: assay.Result) -> None:
    assert "hello" in wrong.stdout
    assert "oh" in wrong.stderr


def test_long_output_is_cut(client: assay.Client) -> None:
    result = one(client, "print('x' * (32 << 20))\n" + RIGHT, ONE)
    assert result.score == 1
    assert len(result.stdout) < 1 << 20
    assert result.raw["stdout"]["truncated"]


def test_feedback(wrong: assay.Result) -> None:
    assert wrong.feedback[0] == "small: add(1, 2): returned -1, expected 3"


def test_exception(rewards: assay.Rewards) -> None:
    raised = rewards.results[2]
    assert raised
    assert raised.exception
    assert (raised.exception.type, raised.exception.line) == ("TypeError", 2)


def test_usage(wrong: assay.Result) -> None:
    usage = wrong.record.usage
    assert usage
    assert 0 < usage.wall_ms < 10_000
    assert 0 < usage.cpu_ms < 10_000
    assert usage.memory_peak_bytes > 1 << 20


def test_identity(wrong: assay.Result) -> None:
    assert wrong.id
    assert wrong.labels == {"problem": "sum", "model": "m"}
    assert json.loads(json.dumps(wrong.raw)) == wrong.raw


def test_totals(wrong: assay.Result) -> None:
    tests = wrong.record.tests
    assert tests
    assert (tests.passed, tests.failed, tests.total, tests.score, len(tests.cases)) == (2, 3, 5, 4 / 7, 5)


def test_totals_of_broken_tests(client: assay.Client) -> None:
    """errors counts the tests that failed by themselves; there is no score then."""
    broken = {"function": "add", "check": "import no_such_module\n"}
    result = one(client, RIGHT, broken, on_error="none")
    assert result.record.tests
    assert (result.outcome, result.score, result.record.tests.errors) == ("check_error", None, 1)


def test_case_name_and_verdict(cases: list[Case]) -> None:
    found = [(c.name, c.passed, c.outcome) for c in cases]
    assert found == [
        ("small", False, "failed"),
        ("case 2", True, "succeeded"),
        ("case 3", True, "succeeded"),
        ("check", False, "failed"),
        ("stdio 1", False, "failed"),
    ]


def test_case_got_and_expected(cases: list[Case]) -> None:
    assert [(c.got, c.expected) for c in cases[:2]] == [("-1", "3"), ("5", "5")]
    assert (cases[4].got, cases[4].expected) == ("5\n", "3")


def test_case_message(cases: list[Case]) -> None:
    assert cases[0].message == "add(1, 2): returned -1, expected 3"
    assert cases[4].message == 'line 1 of the output is "5", expected "3"'


def test_case_duration(cases: list[Case]) -> None:
    assert all(c.wall_ms is not None and c.wall_ms > 0 for c in cases)


def test_case_limits(cases: list[Case]) -> None:
    assert all(c.limits and c.limits.wall for c in cases)
    assert cases[4].limits
    assert cases[4].limits.memory == "256Mi"


def test_case_stderr(cases: list[Case]) -> None:
    assert cases[4].stderr == "oh"


def test_case_self_reported(client: assay.Client) -> None:
    """Results that rest only on the solution's own report are marked."""
    tests = {"functions": ["pack", "unpack"], "check": "def test_it():\n    assert unpack(pack(1)) == 1\n"}
    assert case(client, "def pack(x): return x\nunpack = pack", tests).self_reported
    assert not case(client, RIGHT, ONE).self_reported


# Values that a solution cannot forge.

ANY = "class Any(int):\n    def __eq__(self, other): return True\n    __hash__ = None\n"
CHECK = {"function": "add", "check": "def check(candidate):\n    assert candidate(1, 2) == 3\n"}
SECRET = {"stdio": [{"stdin": "1 2\n", "stdout": "secret-7391\n"}]}
CHEATS = {
    "exit": ("import os\ndef add(a, b): os._exit(0)", ONE),
    "exit of a check": ("import os\ndef add(a, b): os._exit(0)", CHECK),
    "exit at import": ("import sys\nsys.exit(0)", ONE),
    "equals everything": (ANY + "def add(a, b): return Any()", ONE),
    "equals everything in a check": (ANY + "def add(a, b): return Any()", CHECK),
    "a verdict of its own": ("print('{\"passed\": 1, \"score\": 1}')\ndef add(a, b): return 0", ONE),
    "a verdict on every descriptor": (
        "import os\nfor fd in range(64):\n    try: os.write(fd, b'{\"op\": \"done\", \"passed\": true}\\n')\n"
        "    except OSError: pass\ndef add(a, b): return 0", CHECK),
    "no assertions": ("import builtins\nbuiltins.AssertionError = type('A', (BaseException,), {})\n"
                      "def add(a, b): return 0", CHECK),
    "the expected value in memory": (
        "import gc\ndef add(a, b):\n    for o in gc.get_objects():\n"
        "        if isinstance(o, dict) and 'expected' in o: return o['expected']\n    return 0", ONE),
    "the expected value on disk": (
        "import os, re\nfor root in ('/workspace', '/tmp', '/run', '/var', '/root', '/home'):\n"
        "    for d, _, files in os.walk(root):\n        for f in files:\n"
        "            try: text = open(d + '/' + f).read()\n"
        "            except (OSError, ValueError): continue\n"
        "            if found := re.search('secret-[0-9]+', text): print(found[0])", SECRET),
    "the parent's end": ("import os\ndef add(a, b):\n    os.kill(os.getppid(), 9)\n    return 4", ONE),
    "an alarm": ("import signal\nsignal.alarm(1)\ndef add(a, b):\n    import time\n    time.sleep(5)", ONE),
}  # fmt: skip


@pytest.mark.parametrize("name", CHEATS)
def test_cheat(client: assay.Client, name: str) -> None:
    code, tests = CHEATS[name]
    assert client.grade([code], tests) == [0], name


def test_nothing_is_left_for_the_next(client: assay.Client) -> None:
    """Neither of a case for the next, nor of a solution for the next."""
    leave = "n = 0\ndef add(a, b):\n    global n\n    n += 1\n    open('/tmp/left', 'a').write('x')\n    return n"
    tests = {"function": "add", "cases": [{"args": [i, i], "expected": 1} for i in range(3)]}
    assert client.grade([leave], tests) == [1]
    look = "import os\ndef add(a, b): return int(os.path.exists('/tmp/left'))"
    assert client.grade([look] * 3, {"function": "add", "cases": [{"args": [1, 2], "expected": 1}]}) == [0] * 3


def test_hostile_values_are_data(client: assay.Client) -> None:
    """Deep, large and endless answers, and those that break while they are read, fail and nothing more."""
    hostile = [
        "def add(a, b):\n    x = []\n    for _ in range(10000): x = [x]\n    return x",
        "def add(a, b): return 'x' * (64 << 20)",
        "def add(a, b):\n    while True: yield 1",
        "class A:\n    def __repr__(self): raise SystemExit\ndef add(a, b): return A()",
        "def add(a, b): raise KeyboardInterrupt",
        "def add(a, b): raise type('E', (BaseException,), {'__str__': lambda s: 1 / 0})()",
        "def add(a, b): return float('nan')",
    ]
    began = time.monotonic()
    rewards = client.grade(hostile, ONE, policy={"wall": "5s"})
    assert rewards == [0] * len(hostile)
    assert rewards.infra == rewards.broken == rewards.retried == 0
    assert time.monotonic() - began < 90
    assert math.isclose(client.grade([RIGHT], ONE)[0] or 0, 1)
