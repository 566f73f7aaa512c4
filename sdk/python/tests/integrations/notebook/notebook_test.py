"""The notebook of examples/, run by Jupyter's own client over a real fleet.

Each cell's output is compared with the one that is stored in the notebook, which readers see, and the outputs that
matter are held to what they must say besides. `python notebook_test.py` stores the outputs of a new run.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

NOTEBOOK = Path(__file__).resolve().parents[3] / "examples" / "quickstart.ipynb"
WIDGET = "application/vnd.jupyter.widget-view+json"

GRADED = """\
[1.0, 1.0, 0.5, 0.0] mean 0.625
pass@1 0.5 pass@2 0.833
{'failed': 1, 'AttributeError': 1} of the fleet's own: 0
"""

Notebook = Any  # a NotebookNode is a dict whose keys are attributes, too


def run(url: str) -> Notebook:
    """The notebook, run from its top to its end; a cell that raises is an error."""
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    for cell in notebook.cells:
        cell.pop("outputs", None)
        if cell.cell_type == "code":
            cell.outputs = []
    os.environ["ASSAY_URL"] = url
    NotebookClient(notebook, timeout=120, kernel_name="python3").execute(cwd=str(NOTEBOOK.parent))
    return notebook


def shown(cell: Notebook) -> str:
    """A cell's text: its printed output, and the value of its last line. Bars of progress are left out."""
    out = ""
    for output in cell.outputs:
        if output.output_type == "stream" and output.name == "stdout":
            out += output.text
        elif output.output_type == "execute_result":
            out += output.data["text/plain"]
    return out


def code(notebook: Notebook) -> dict[str, Notebook]:
    return {cell.id: cell for cell in notebook.cells if cell.cell_type == "code"}


@pytest.fixture(scope="module")
def notebook() -> Notebook:
    return run(os.environ["ASSAY_TEST_URL"])


def test_outputs_are_those_that_readers_see(notebook: Notebook) -> None:
    assert nbformat.validate(notebook) is None
    stored, got = code(nbformat.read(NOTEBOOK, as_version=4)), code(notebook)
    assert {name: shown(cell) for name, cell in got.items()} == {name: shown(cell) for name, cell in stored.items()}
    assert all(shown(cell) for cell in got.values())


@pytest.mark.parametrize(
    ("cell", "says"),
    [
        ("run", "42\n succeeded\n"),
        ("failure", "exception ZeroDivisionError\nProgramError\n"),
        ("map", f"[0, 1, 4, 9, 16] {sum(i * i for i in range(100))}\n"),
        ("grade", GRADED),
        ("session", "2\n60 [10, 20, 30]\n"),
        ("function", "[3, 5]\nCallError price: KeyError: 'plum'\n\n"),
        ("interrupt", "canceled\nTrue\nended\n"),
        ("button", "interrupted\ncanceled\n"),
        ("async", "42\n\n"),
    ],
)
def test_cell(notebook: Notebook, cell: str, says: str) -> None:
    assert shown(code(notebook)[cell]) == says


def test_table_is_a_data_frame(notebook: Notebook) -> None:
    (output,) = code(notebook)["table"].outputs
    assert "<table" in output.data["text/html"]
    lines = [line.split() for line in output.data["text/plain"].splitlines()]
    assert lines[0] == ["label.body", "outcome", "reward"]
    assert [(line[-2], line[-1]) for line in lines[1:]] == [
        ("succeeded", "1.0"), ("succeeded", "1.0"), ("failed", "0.5"), ("failed", "0.0"),
    ]  # fmt: skip


def test_progress_is_a_widget(notebook: Notebook) -> None:
    """The bar of map is at its end: 100 of 100."""
    bars = [o for o in code(notebook)["map"].outputs if WIDGET in o.get("data", {})]
    assert len(bars) == 1
    states = [
        s["state"] for s in notebook.metadata.widgets["application/vnd.jupyter.widget-state+json"]["state"].values()
    ]
    full = [s for s in states if s.get("_model_name") == "FloatProgressModel"]
    assert [(s["value"], s["max"], s["bar_style"]) for s in full] == [(100.0, 100.0, "success")]


def store() -> None:
    """Writes the outputs for readers into the notebook: text and tables, without parts that differ between runs."""
    notebook = run(os.environ["ASSAY_TEST_URL"])
    notebook.metadata.pop("widgets", None)
    notebook.metadata["language_info"] = {"name": "python"}
    for cell in code(notebook).values():
        cell.metadata.pop("execution", None)
        cell.outputs = [o for o in cell.outputs if o.get("name") != "stderr" and WIDGET not in o.get("data", {})]
    nbformat.write(notebook, NOTEBOOK)


if __name__ == "__main__":
    sys.exit(store())
