"""The models of the Python client of Kubernetes, which is an optional dependency."""

from __future__ import annotations

import json
import re
from typing import Any

# More levels than an object has without managed fields, and fewer than the parser can read.
_DEEPEST = 100
_STRING_OR_BRACKET = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"|[\[\]{}]', re.DOTALL)
# Longer whole numbers are read as floats: Python converts no more than 4300 digits.
_LONGEST_NUMBER = 400


def model(raw_json: bytes | None, kind: str) -> Any:
    """The object as a model of this kind; `None` if there is no JSON of it."""
    if raw_json is None:
        return None
    try:
        from kubernetes.client import ApiClient
    except ImportError as error:
        text = "models of Kubernetes need pip install 'CHECKOUT/backends/python[kubernetes]'; or read raw_json"
        raise ImportError(text) from error
    # The public method wants another kind of response in each version of the client.
    return getattr(ApiClient(), "_ApiClient__deserialize")(parsed(raw_json), kind)  # noqa: B009


def parsed(raw_json: bytes) -> Any:
    """The object that this JSON describes.

    Managed fields may have whatever Go reads: bytes that are not UTF-8, 10,000 levels, numbers of any length.
    """
    text = raw_json.decode("utf-8", "replace")
    try:
        return json.loads(text)
    except (RecursionError, ValueError):
        return json.loads(_shallow(text), parse_int=_number)


def _number(digits: str) -> int | float:
    return int(digits) if len(digits) <= _LONGEST_NUMBER else float(digits)


def _shallow(text: str) -> str:
    """The same with `null` instead of the values that are nested too deeply."""
    kept, start, depth = [], 0, 0
    for token in _STRING_OR_BRACKET.finditer(text):
        if token[0] in "[{":
            depth += 1
            if depth == _DEEPEST + 1:
                kept.append(text[start : token.start()])
        elif token[0] in "]}":
            if depth == _DEEPEST + 1:
                start = token.end()
            depth -= 1
    return "null".join([*kept, text[start:]])
