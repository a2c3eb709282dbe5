"""Checks the paths that a policy shows. The gateway would leave out a wrong one, and log it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from .introspection import Shown
from .reads import quoted, size

# Limits of the contract.
MAX_PATHS = 64
MAX_TEXT_BYTES = 256

_PATH = re.compile(r"(?:/(?:[A-Za-z0-9._~-]+|:[A-Za-z][A-Za-z0-9_]*))+")
_CONTROL = re.compile("[\x00-\x1f\x7f\x85\u2028\u2029]")


def path_mistakes(shown: Sequence[Shown]) -> Iterator[str]:
    """All of them, one sentence each."""
    if len(shown) > MAX_PATHS:
        yield f"{len(shown)} paths are shown; expected at most {MAX_PATHS}, use parameters and the query"
    for entry in shown:
        for mistake in _entry_mistakes(entry):
            yield f"the path {quoted(entry.path)} {mistake}"
    yield from _ambiguities(shown)


def _entry_mistakes(entry: Shown) -> Iterator[str]:
    if not _PATH.fullmatch(entry.path):
        yield (
            'is malformed; expected segments such as /quotas/:namespace, of letters, digits, "-", ".", "_" and "~", '
            'or a colon and the name of a parameter, a letter with further letters, digits and "_"'
        )
    for segment in sorted({".", ".."} & set(entry.path.split("/"))):
        yield f"has the segment {quoted(segment)}, which clients remove from a URL; use another text"
    for what, text in (("", entry.path), ("a description of ", entry.description)):
        if size(text) > MAX_TEXT_BYTES:
            yield f"has {what}{size(text)} bytes; expected at most {MAX_TEXT_BYTES}"
    if _CONTROL.search(entry.description):
        yield "has a description with a line break or another control character; expected one line"
    for name in sorted({name for name in entry.parameters if entry.parameters.count(name) > 1}):
        yield f"has the parameter {quoted(name)} more than once; give each another name"
    show: object = entry.show
    if not callable(show):
        yield "has no function; Info.shows needs one that returns what the path shows"


def _ambiguities(shown: Sequence[Shown]) -> Iterator[str]:
    """A URL that matches both of two paths could be answered by either."""
    first: dict[str, Shown] = {}
    for entry in shown:
        other = first.setdefault(entry.pattern, entry)
        if other is entry:
            continue
        if other.path == entry.path:
            yield f"the path {quoted(entry.path)} is shown twice; remove one"
        else:
            yield (
                f"the paths {quoted(other.path)} and {quoted(entry.path)} differ only in the names of parameters; "
                "remove one"
            )
