"""Generates src/extender_policy/_api from the contract and from this package's own wire.proto.

python tools/generate.py           writes the files
python tools/generate.py --check   fails if they differ from what would be written
"""

from __future__ import annotations

import argparse
import importlib.resources
import re
import sys
import tempfile
from pathlib import Path
from typing import Any

from grpc_tools import protoc as untyped_protoc

protoc: Any = untyped_protoc

ROOT = Path(__file__).resolve().parent.parent
CONTRACT = ROOT.parent.parent / "proto"
OWN = ROOT / "proto"
TARGET = ROOT / "src" / "extender_policy" / "_api"
PACKAGE = "extender_policy._api"

# protoc names modules by the paths of their files; here they are below one package, which nothing else can take.
IMPORT = re.compile(r"^from extender\.policy\.(\w+) import", re.MULTILINE)


def generated() -> dict[Path, str]:
    """The text of each file, by its path below the target."""
    sources = sorted(CONTRACT.glob("extender/policy/*/*.proto")) + sorted(OWN.glob("extender/policy/*/*.proto"))
    with tempfile.TemporaryDirectory() as folder:
        well_known = importlib.resources.files("grpc_tools") / "_proto"
        arguments = ["protoc", f"-I{CONTRACT}", f"-I{OWN}", f"-I{well_known}"]
        arguments += [f"--python_out={folder}", f"--pyi_out={folder}", *map(str, sources)]
        if protoc.main(arguments) != 0:
            sys.exit("protoc failed")
        written = sorted(Path(folder).glob("extender/policy/*/*"))
        texts = {Path(*path.parts[-2:]): rewritten(path.read_text()) for path in written}
    texts[Path("__init__.py")] = '"""Generated code. Do not edit: `make generate` writes it."""\n'
    for folder_name in {path.parts[0] for path in texts if len(path.parts) == 2}:
        texts[Path(folder_name, "__init__.py")] = ""
    return texts


def rewritten(text: str) -> str:
    """With imports from the package of this SDK."""
    return IMPORT.sub(rf"from {PACKAGE}.\1 import", text)


def main() -> None:
    """Writes or checks."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    texts = generated()
    present = {path.relative_to(TARGET) for path in TARGET.rglob("*.py*") if "__pycache__" not in path.parts}
    if parser.parse_args().check:
        stale = {path for path, text in texts.items() if path not in present or (TARGET / path).read_text() != text}
        stale |= present - texts.keys()
        if stale:
            names = ", ".join(sorted(map(str, stale)))
            sys.exit(f"generated code is not up to date: {names}; run `make generate` and commit the result")
        return
    for path, text in texts.items():
        (TARGET / path).parent.mkdir(parents=True, exist_ok=True)
        (TARGET / path).write_text(text)
    for path in present - texts.keys():
        (TARGET / path).unlink()


if __name__ == "__main__":
    main()
