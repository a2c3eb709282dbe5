"""The revision of a policy that names none: replicas of one build have the same, and an edited program has another."""

from __future__ import annotations

import sys
from functools import lru_cache
from hashlib import sha256
from pathlib import Path

from ._errors import cut
from .info import Info
from .policy import Policy
from .version import VERSION

DIGITS = 12
"""Of the digest, after the version."""


def with_revision(info: Info, policy: Policy) -> Info:
    """The declaration with a revision: the given one, or the version and a digest of the policy's program."""
    if info.declared_revision is not None:
        return info
    digest = program_digest(type(policy).__module__)
    return info.revision(f"{cut(info.version, 63 - DIGITS)}+{digest}" if digest else info.version)


@lru_cache(maxsize=64)
def program_digest(module: str) -> str:
    """Of the sources of the module's package, or of those beside a module without one; empty if there are none."""
    loaded = sys.modules.get(module)
    package = sys.modules.get((getattr(loaded, "__package__", None) or "").partition(".")[0])
    file = getattr(package or loaded, "__file__", None)
    if file is None:
        return ""
    folder = Path(file).parent
    sources = sorted(folder.glob("**/*.py" if package else "*.py"))
    digest = sha256(VERSION.encode())
    for path in sources:
        digest.update(f"\0{path.relative_to(folder)}\0".encode() + path.read_bytes())
    return digest.hexdigest()[:DIGITS] if sources else ""
