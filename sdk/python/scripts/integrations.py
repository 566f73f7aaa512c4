"""Tests the adapters in src/assay/integrations, each against the real packages, in an environment of its own.

python scripts/integrations.py [--check] [NAME ...]

A name is a folder of tests/integrations: its requirements.txt says which packages and versions, its tests run in that
environment, over one fleet for all of them (ASSAY_TEST_URL, else `assay dev` is started). modules.txt, if there is one,
names the adapters that are checked by pyright there, if any; without, it is the module of the folder's name.
no-deps.txt has packages that are installed without what they depend on, and prepare.py is run after that, where a
folder has them.
Environments are kept in .cache/sdk-NAME, and made anew when one of these changes. --check only checks types.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import venv
from collections.abc import Generator
from pathlib import Path

from fleet import start_fleet, stop_fleet
from generating import PACKAGE, ROOT

REPOSITORY = ROOT.parent.parent
FOLDERS = ROOT / "tests" / "integrations"


def environment(name: str) -> Path:
    """The interpreter of the adapter's environment, which is created if it is missing."""
    requirements, alone, prepare = (FOLDERS / name / f for f in ("requirements.txt", "no-deps.txt", "prepare.py"))
    place = REPOSITORY / ".cache" / f"sdk-{name}"
    python, made = place / "bin" / "python", place / "made"
    content = b"".join(file.read_bytes() for file in (requirements, alone, prepare) if file.exists())
    digest = hashlib.sha256(content).hexdigest()
    if made.exists() and made.read_text() == digest:
        return python
    venv.create(place, clear=True, with_pip=True)
    install = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*install, "-r", str(requirements), "pytest"], check=True)
    if alone.exists():
        subprocess.run([*install, "--no-deps", "-r", str(alone)], check=True)
    subprocess.run([*install, "-e", str(ROOT)], check=True)
    if prepare.exists():
        subprocess.run([str(python), str(prepare)], check=True)
    made.write_text(digest)
    return python


def modules(name: str) -> list[str]:
    """The adapters of a folder of tests."""
    listed = FOLDERS / name / "modules.txt"
    return listed.read_text().split() if listed.exists() else [name]


def check(name: str, python: Path) -> int:
    """Checks types by pyright in strict mode, except unknown types of the packages."""
    if not modules(name):
        return 0
    unknown = ("Variable", "Member", "Argument", "Parameter", "Lambda")
    config = {
        # Relative to this configuration file: pyright ignores other paths, and then checks everything.
        "include": [str((PACKAGE / "integrations" / f"{m}.py").relative_to(ROOT)) for m in modules(name)],
        "extraPaths": [str(ROOT / "src")],
        "pythonVersion": "3.11",
        "typeCheckingMode": "strict",
        "reportMissingTypeStubs": False,
        "reportUntypedBaseClass": False,
        "reportUntypedFunctionDecorator": False,
        "reportUntypedClassDecorator": False,
        **{f"reportUnknown{kind}Type": False for kind in unknown},
    }
    with tempfile.NamedTemporaryFile("w", suffix=".json", dir=ROOT, prefix=".pyright-") as file:
        json.dump(config, file)
        file.flush()
        command = [sys.executable, "-m", "pyright", "--pythonpath", str(python), "--project", file.name]
        return subprocess.run(command, cwd=ROOT).returncode


@contextlib.contextmanager
def fleet() -> Generator[str]:
    """Address of the fleet for all tests."""
    if given := os.environ.get("ASSAY_TEST_URL"):
        yield given
        return
    with tempfile.TemporaryDirectory(prefix="assay-sdk-") as directory:
        process, address = start_fleet(Path(directory) / "fleet")
        try:
            yield address
        finally:
            stop_fleet(process)


def main() -> int:
    """Exits with 1 if one of them failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="folders of tests/integrations; default: all of them")
    parser.add_argument("--check", action="store_true", help="check types only")
    args = parser.parse_args()
    names = args.names or sorted(p.parent.name for p in FOLDERS.glob("*/requirements.txt"))
    failed: set[str] = set()
    for name in names:
        if check(name, environment(name)):
            failed.add(name)
    if not args.check:
        with fleet() as url:
            for name in names:
                command = [str(environment(name)), "-m", "pytest", str(FOLDERS / name)]
                if subprocess.run(command, cwd=ROOT, env={**os.environ, "ASSAY_TEST_URL": url}).returncode:
                    failed.add(name)
    print("integrations:", f"failed: {', '.join(sorted(failed))}" if failed else f"{len(names)} passed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
