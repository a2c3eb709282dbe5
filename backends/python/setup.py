"""Generates src/extender_policy/_api for each build: from the policy API, and from this package's own wire.proto.

Neither is in a source distribution, which has the generated code instead.
"""

from __future__ import annotations

import importlib.resources
import re
import sys
import tempfile
from pathlib import Path
from typing import Any

from setuptools import setup

ROOT = Path(__file__).resolve().parent
CONTRACT = ROOT.parent.parent / "proto"
OWN = ROOT / "proto"
TARGET = ROOT / "src" / "extender_policy" / "_api"

# protoc names modules by the paths of their files; here they are below one package, which nothing else can take.
IMPORT = re.compile(r"^from extender\.policy\.(\w+) import", re.MULTILINE)


def generated(sources: list[Path]) -> dict[Path, str]:
    """The text of each file, by its path below the target."""
    from grpc_tools import protoc as untyped_protoc

    protoc: Any = untyped_protoc

    well_known = importlib.resources.files("grpc_tools") / "_proto"
    with tempfile.TemporaryDirectory() as folder:
        arguments = ["protoc", f"-I{CONTRACT}", f"-I{OWN}", f"-I{well_known}"]
        arguments += [f"--python_out={folder}", f"--pyi_out={folder}", *map(str, sources)]
        if protoc.main(arguments) != 0:
            sys.exit("protoc failed")
        written = sorted(Path(folder).glob("extender/policy/*/*"))
        texts = {Path(*path.parts[-2:]): path.read_text() for path in written}
    packages = {path.parent / "__init__.py": "" for path in texts}
    return {
        Path("__init__.py"): '"""Generated code: each build writes it."""\n',
        **packages,
        **{path: IMPORT.sub(r"from extender_policy._api.\1 import", text) for path, text in texts.items()},
    }


def generate() -> None:
    """Writes what differs, and removes what is no longer generated."""
    # Only a source distribution has this file. Whatever is beside the folder in which it is unpacked is not read.
    if (ROOT / "PKG-INFO").is_file() and TARGET.is_dir():
        return
    if not (CONTRACT / "extender" / "policy").is_dir():
        sys.exit(f"{CONTRACT} is missing: build in a checkout of extender-gateway, or from a source distribution")
    sources = [file for root in (CONTRACT, OWN) for file in sorted(root.glob("extender/policy/*/*.proto"))]
    texts = generated(sources)
    for path in TARGET.rglob("*.py*"):
        if "__pycache__" not in path.parts and path.relative_to(TARGET) not in texts:
            path.unlink()
    for relative, text in texts.items():
        path = TARGET / relative
        if not path.exists() or path.read_text() != text:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)


generate()
setup()
