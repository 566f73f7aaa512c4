"""Answers with ground truths, in the formats of verl's own code data sets, and their rewards."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

STDIO = json.dumps({"inputs": ["1 2\n", "5 0\n"], "outputs": ["3\n", "5\n"]})
LINES = {"inputs": [["1 2"], ["5 0"]], "outputs": [["3"], ["5"]], "fn_name": None}
CALLS = json.dumps({"fn_name": "add", "inputs": ["1\n2", "5\n0"], "outputs": ["3", "5"]})
WRAPPED = json.dumps({"fn_name": "pair", "inputs": ["[1, 2]", '["a"]'], "outputs": ["[[1, 2]]", '[["a"]]']})
NUMBERED = json.dumps({"fn_name": "flip", "inputs": ['{"1": 2}'], "outputs": ['{"2": 1}']})
ASSERTS = {"assert_case": ["assert add(1, 2) == 3", "assert math.isclose(add(5, 0), 5)"]}
NATIVE = {"function": "add", "cases": [{"args": [1, 2], "expected": 3}, {"args": [5, 0], "expected": 5}]}


class Sample(NamedTuple):
    name: str
    answer: str
    truth: Any
    score: float
    alike: bool = True  # verl's own scorer, prime_code, has the same score; it supports no asserts and no API tests


def block(code: str, language: str = "python") -> str:
    return f"Let me think.\n```{language}\n{code}\n```\nThat is it."


ADD = "def add(a, b):\n    return a + b"
SUB = "def add(a, b):\n    return a - b"
READ = "a, b = map(int, input().split())\n"

SAMPLES = [
    Sample("stdio", block(READ + "print(a + b)"), STDIO, 1),
    Sample("stdio half", block(READ + "print(a - b)"), STDIO, 0.5),
    Sample("stdio wrong", block(READ + "print('no')"), STDIO, 0),
    Sample("stdio main", block(READ + "if __name__ == '__main__':\n    print(a + b)"), STDIO, 1),
    Sample("stdio lines", block(READ + "print(a + b)"), LINES, 1, alike=False),  # which raises there
    Sample("stdio implied imports", block(READ + "x: List = [a, b]\nprint(int(sqrt(sum(x) ** 2)))"), STDIO, 1),
    Sample("stdio raises", block(READ + "raise ValueError(a)"), STDIO, 0),
    Sample("calls", block(ADD), CALLS, 1),
    Sample("calls half", block(SUB), CALLS, 0.5, alike=False),  # 0 there: the cases alone have no fn_name
    Sample("calls method", block("class Solution:\n    def add(self, a, b):\n        return a + b"), CALLS, 1),
    Sample("calls missing", block("def sum_of(a, b):\n    return a + b"), CALLS.replace('"add"', '"plus"'), 0),
    Sample("calls tuple", block("def pair(x):\n    return tuple(x)"), WRAPPED, 1),
    Sample("calls list", block("def pair(x):\n    return x"), WRAPPED, 1),
    Sample("calls keys", block("def flip(d):\n    return {v: k for k, v in d.items()}"), NUMBERED, 1),
    Sample("last block", block(SUB) + block(ADD), CALLS, 1),
    Sample("bare", ADD, CALLS, 1),
    Sample("prose", "I cannot do that.", CALLS, 0),
    Sample("empty", "", CALLS, 0, alike=False),  # prime_code finds operator.add
    Sample("nul", block("x = '\0'"), CALLS, 0),
    Sample("future", block("from __future__ import annotations\n" + READ + "print(a + b)"), STDIO, 1, alike=False),
    Sample("other fence", block(ADD, "py"), CALLS, 1, alike=False),
    Sample("operator has it", block("x = 1"), CALLS, 0, alike=False),  # passes there
    Sample("calls exit", block("import os\nos._exit(0)"), CALLS, 0, alike=False),
    Sample("asserts", block(ADD), ASSERTS, 1, alike=False),
    Sample("asserts half", block("def add(a, b):\n    return 3"), ASSERTS, 0.5, alike=False),
    Sample("asserts exit", block("import sys\nsys.exit(0)"), ASSERTS, 0, alike=False),  # would pass there: exit code 0
    Sample("native", block(ADD), NATIVE, 1, alike=False),
    Sample("native half", block(SUB), json.dumps(NATIVE), 0.5, alike=False),
]
