"""The README's instructions, in a new environment: `pip install ./sdk/python`, then its lines."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import threading
import venv
from pathlib import Path

import pytest

HERE = Path(__file__).resolve()
DATA = HERE.parents[3] / "examples" / "humaneval" / "humaneval.jsonl"
PROGRAM = (HERE.parents[1] / "README.md").read_text().split("```python grade.py\n", 1)[1].split("```", 1)[0]
FIRST, _, FIRST_OUTPUT, *_ = (HERE.parents[3] / "README.md").read_text().split("```python add.py\n", 1)[1].split("```")

# After the program's own lines: each second solution is the reference's, and the others return None.
JUDGE = """
right = sum(got == want for got, want in zip(rewards, [1.0, 0.0] * 164, strict=True))
print(right, "of", len(rewards), "right,", rewards.infra, rewards.broken, rewards.retried)
"""


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A new virtual environment with the client alone, outside of the repository."""
    place = tmp_path_factory.mktemp("readme")
    venv.create(place / "venv", with_pip=True)
    install(place, str(HERE.parents[1]))
    return place


def install(place: Path, what: str) -> None:
    pip = [str(place / "venv" / "bin" / "pip"), "install", "--quiet", "--disable-pip-version-check", what]
    subprocess.run(pip, cwd=place, check=True, timeout=300)


def grade(place: Path, url: str) -> tuple[str, str]:
    """The program's output, and the text on the terminal meanwhile."""
    (place / "grade.py").write_text(PROGRAM + JUDGE)
    ours, theirs = pty.openpty()
    shown: list[bytes] = []

    def watch() -> None:
        while True:
            try:
                shown.append(os.read(ours, 65536))
            except OSError:  # nobody has the other end any more
                return

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        done = subprocess.run(
            [str(place / "venv" / "bin" / "python"), "grade.py", str(DATA)], cwd=place, timeout=240,
            env={**os.environ, "ASSAY_URL": url, "TERM": "xterm", "COLUMNS": "100"},
            stdout=subprocess.PIPE, stderr=theirs, text=True,
        )  # fmt: skip
    finally:
        os.close(theirs)
        watcher.join(10)
        os.close(ours)
    text = b"".join(shown).decode()
    return done.stdout, re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text)  # without colours


def test_first_program(environment: Path, url: str) -> None:
    """The program of the repository's README prints the output beneath it."""
    command = [str(environment / "venv" / "bin" / "python"), "-c", FIRST]
    done = subprocess.run(
        command,
        cwd=environment,
        env={**os.environ, "ASSAY_URL": url},
        stdout=subprocess.PIPE,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stdout == FIRST_OUTPUT.removeprefix("text\n")


def test_program_is_short() -> None:
    assert sum(1 for line in PROGRAM.splitlines() if line.strip()) <= 12


@pytest.mark.parametrize("bar", ["", "rich"])
def test_humaneval_in_a_new_environment(environment: Path, url: str, bar: str) -> None:
    """Rewards are right for 328 of 328, with a line each second, or with a bar where rich is installed."""
    if bar:
        install(environment, bar)
    printed, shown = grade(environment, url)
    first, last = printed.splitlines()
    assert first == "164.0 of 328 pass@1 0.5 {'failed': 164}", shown
    assert last == "328 of 328 right, 0 0 0"
    if bar:
        assert re.search(r"HumanEval \u2501+ 328/328", shown)
    else:
        assert "HumanEval: 328 of 328" in shown
        assert len(re.findall(r"HumanEval: \d+ of 328", shown)) > 1
