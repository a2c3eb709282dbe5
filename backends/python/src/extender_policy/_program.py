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
    """Of the sources of the module's package, or of those beside a module without one; empty if they cannot be read."""
    loaded = sys.modules.get(module)
    package = sys.modules.get((getattr(loaded, "__package__", None) or "").partition(".")[0])
    # A namespace package has no file.
    top, beside = (getattr(found, "__file__", None) for found in (package, loaded))
    folder = Path(top or beside or "/nowhere").parent
    sources = sorted(folder.glob("**/*.py" if top else "*.py")) if top or beside else []
    digest = sha256(VERSION.encode())
    try:
        for path in sources:
            digest.update(b"\0%b\0" % bytes(path.relative_to(folder)) + path.read_bytes())
    except OSError:
        # Such as the link that an editor makes beside a file that is being edited.
        return ""
    return digest.hexdigest()[:DIGITS] if sources else ""
