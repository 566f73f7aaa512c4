"""Writes wrong.jsonl: for each problem a solution with a small mistake.

    python3 mutate.py humaneval.jsonl > wrong.jsonl

One token of the reference solution is changed, as a slip would: < for <=, + for -,
1 for 2, and for or. Which token is tried first depends on the problem alone, so the
output is always the same. A change is kept if the check then fails with an
AssertionError, every time: some checks draw random inputs.
"""

import hashlib
import io
import json
import subprocess
import sys
import tokenize

SWAPS = {
    "<": ["<="], "<=": ["<"], ">": [">="], ">=": [">"], "==": ["!="], "!=": ["=="],
    "+": ["-"], "-": ["+"], "*": ["+"], "/": ["*"], "//": ["*"], "%": ["+"], "+=": ["-="], "-=": ["+="], "*=": ["+="],
    "and": ["or"], "or": ["and"], "True": ["False"], "False": ["True"],
    "max": ["min"], "min": ["max"], "lower": ["upper"], "upper": ["lower"], "all": ["any"], "any": ["all"],
    "in": ["not in"], "if": ["if not"], "while": ["while not"], "sorted": ["list"], "set": ["list"],
    "startswith": ["endswith"], "endswith": ["startswith"], "swapcase": ["title"],
}
RUNS = 4  # of every kept change
LIMIT = 1  # second: all but one of the kept changes end in less than a tenth of that


def changes(body):
    """Yields every body with one token changed."""
    lines = body.splitlines(keepends=True)
    tokens = tokenize.generate_tokens(io.StringIO("if 1:\n" + body).readline)
    for token in tokens:
        (row, start), (_, end) = token.start, token.end
        if row == 1:
            continue
        new = SWAPS.get(token.string, [])
        if token.type == tokenize.NUMBER and token.string.isdigit():
            new = [str(int(token.string) + 1)]
        if token.type == tokenize.STRING and len(token.string) > 2 and "\n" not in token.string:
            new = [token.string[0] + token.string[2:]]  # loses its first letter
        for text in new:
            line = lines[row - 2]
            changed = line[:start] + text + line[end:]
            yield "".join(lines[: row - 2] + [changed] + lines[row - 1 :]), f"line {row - 1}: {token.string} became {text}"
    for i, line in enumerate(lines):
        indent = line[: len(line) - len(line.lstrip())]
        _, found, value = line.strip().partition("return ")
        for less, what in ("({})[1:]", "the first is missing"), ("({}) + 1", "one too many"), ("None", "returns nothing"):
            if found:
                yield "".join(lines[:i] + [f"{indent}return {less.format(value)}\n"] + lines[i + 1 :]), f"line {i + 1}: {what}"


def ends(problem, body):
    """Returns the last line of the program's stderr, or ok."""
    code = problem["prompt"] + body + "\n" + problem["test"] + "\ncheck(" + problem["entry_point"] + ")\n"
    try:
        run = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True, timeout=LIMIT)
    except subprocess.TimeoutExpired:
        return "timeout"
    return "ok" if run.returncode == 0 else (run.stderr.strip().splitlines() or ["?"])[-1]


def wrong(problem):
    """Returns the first change, in the problem's own order, that the check finds."""
    body = problem["canonical_solution"]

    def order(change):
        return ("became" not in change[1], change[1].endswith("nothing"), hashlib.sha256((problem["task_id"] + change[0]).encode()).digest())

    for changed, what in sorted(changes(body), key=order):
        if all(ends(problem, changed).startswith("AssertionError") for _ in range(RUNS)):
            return {"task_id": problem["task_id"], "solution": changed, "change": what}
    raise SystemExit(f"{problem['task_id']}: no change fails the check")


if __name__ == "__main__":
    with open(sys.argv[1]) as f:
        for line in f:
            print(json.dumps(wrong(json.loads(line))), flush=True)
