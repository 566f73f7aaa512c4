"""Makes torch importable without CUDA.

The index has torch for x86 in one build only, which is linked to 3 GB of CUDA's libraries. A machine without a GPU
calls nothing of them, but they have to be there: libraries of their names, whose functions do nothing, are put beside
torch's.
"""

from __future__ import annotations

import importlib.util
import re
import subprocess
import tempfile
from collections import defaultdict
from pathlib import Path

CUDA = "(?:cu|nccl|nvshmem|nvrtc)"


def main() -> None:
    spec = importlib.util.find_spec("torch")
    if spec is None or spec.origin is None:
        raise SystemExit("torch is not installed here")
    lib = Path(spec.origin).parent / "lib"
    needed: set[str] = set()
    functions: dict[str, set[str]] = defaultdict(set)  # by the version that they are asked for with; "" is none
    for library in map(str, lib.glob("lib*.so")):
        needed |= set(re.findall(rf"\(NEEDED\).*\[(lib{CUDA}.*)\]", "\n".join(output("readelf", "-d", library))))
        for line in output("nm", "-D", "--undefined-only", library):
            name, _, version = line.split()[-1].partition("@")
            if re.match(f"_*{CUDA}", name):
                functions[version].add(name)
    for name in sorted(needed):
        if not (lib / name).exists():
            version = next((v for v in functions if v and (v == name or v.lower() in name)), "")
            make(lib / name, functions[version], version)


def output(*command: str) -> list[str]:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()


def make(library: Path, functions: set[str], version: str) -> None:
    """Compiles a library of functions that return 100, which is "no device", or an empty text where it is one."""
    source = "".join(
        f'const char *{name}() {{ return ""; }}\n'
        if re.search("Error(String|Name)$|ncclGetLastError", name)
        else f"int {name}() {{ return 100; }}\n"
        for name in sorted(functions)
    )
    command = ["cc", "-w", "-shared", "-fPIC", f"-Wl,-soname,{library.name}", "-o", str(library), "-x", "c", "-"]
    with tempfile.NamedTemporaryFile("w", suffix=".map") as script:
        if version:
            script.write(f"{version} {{ global: *; }};")
            script.flush()
            command.insert(1, f"-Wl,--version-script={script.name}")
        subprocess.run(command, input=source, text=True, check=True)


if __name__ == "__main__":
    main()
