"""Generates src/extender_policy/_api for each build: from the policy API, and from this package's own wire.proto.

Neither is in a source distribution, which has the generated code instead. The links of README.md become absolute.
"""

from __future__ import annotations

import importlib.resources
import re
import sys
import tempfile
from pathlib import Path
from typing import Any
from urllib.parse import urljoin

from setuptools import setup

ROOT = Path(__file__).resolve().parent
CONTRACT = ROOT.parent.parent / "proto"
OWN = ROOT / "proto"
TARGET = ROOT / "src" / "extender_policy" / "_api"

SOURCE = "https://extender-gateway.io/"

# protoc names modules by the paths of their files; here they are below one package, which nothing else can take.
IMPORT = re.compile(r"^from extender\.policy\.(\w+) import", re.MULTILINE)
# protoc's own modules refuse a protobuf that is older than protoc, or newer by two major versions. These do what those
# have done since protobuf 3.20, without asking for its version.
MODULE = '''"""Generated from {name}. DO NOT EDIT."""
from google.protobuf import descriptor_pool
from google.protobuf.internal import builder
{imports}
DESCRIPTOR = descriptor_pool.Default().AddSerializedFile({content})
builder.BuildMessageAndEnumDescriptors(DESCRIPTOR, globals())
builder.BuildTopDescriptorsAndMessages(DESCRIPTOR, __name__, globals())
'''


def generated(sources: list[Path]) -> dict[Path, str]:
    """The text of each file, by its path below the target."""
    from grpc_tools import protoc as untyped_protoc

    protoc: Any = untyped_protoc

    well_known = importlib.resources.files("grpc_tools") / "_proto"
    with tempfile.TemporaryDirectory() as folder:
        arguments = ["protoc", f"-I{CONTRACT}", f"-I{OWN}", f"-I{well_known}"]
        arguments += [f"--descriptor_set_out={folder}/files", f"--pyi_out={folder}", *map(str, sources)]
        if protoc.main(arguments) != 0:
            sys.exit("protoc failed")
        stubs = {Path(*path.parts[-2:]): path.read_text() for path in Path(folder).glob("extender/policy/*/*.pyi")}
        texts = {**modules(Path(folder, "files").read_bytes()), **stubs}
    packages = {path.parent / "__init__.py": "" for path in texts}
    return {
        Path("__init__.py"): '"""Generated code: each build writes it."""\n',
        **packages,
        **{path: IMPORT.sub(r"from extender_policy._api.\1 import", text) for path, text in texts.items()},
    }


def modules(content: bytes) -> dict[Path, str]:
    """The modules for the files of a FileDescriptorSet."""
    from google.protobuf import descriptor_pb2

    texts = {}
    for file in descriptor_pb2.FileDescriptorSet.FromString(content).file:
        folders_and_modules = [(Path(name).parts[-2], f"{Path(name).stem}_pb2") for name in file.dependency]
        imports = "".join(f"from extender.policy.{folder} import {module}\n" for folder, module in folders_and_modules)
        text = MODULE.format(name=file.name, imports=imports, content=file.SerializeToString())
        texts[Path(Path(file.name).parts[-2], f"{Path(file.name).stem}_pb2.py")] = text
    return texts


def description() -> str:
    """README.md for readers outside of the repository."""
    absolute = SOURCE + "backends/python/"
    text = (ROOT / "README.md").read_text()
    return re.sub(r"\]\((?!https?:|#)([^)]+)", lambda link: "](" + urljoin(absolute, link[1]), text)


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
setup(long_description=description(), long_description_content_type="text/markdown")
