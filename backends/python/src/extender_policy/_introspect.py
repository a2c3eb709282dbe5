"""From an encoded request for what a path shows to the encoded answer, without sockets."""

from __future__ import annotations

import dataclasses
import inspect
import json
from collections.abc import Mapping, Set
from typing import Any

from grpc import StatusCode

from . import _answer
from ._api.v1beta1 import introspection_pb2
from ._backend import Backend, Prepared
from ._errors import CallError, failed, invalid
from ._limits import JSON_BYTES, PATH_TEXT_BYTES
from .errors import InvalidParameter, NotFound
from .introspection import IntrospectAsk, Shown

_CODES = {
    NotFound: StatusCode.NOT_FOUND,
    InvalidParameter: StatusCode.INVALID_ARGUMENT,
}
"""By what the function of a path raises."""


async def introspect(backend: Backend, encoded: bytes) -> introspection_pb2.IntrospectResponse:
    """What a path shows.

    Also if the policy is not ready: people look at its state to find out why.
    """
    request = _answer.decoded_small(introspection_pb2.IntrospectRequest, encoded)
    shown = _shown(backend._policy_for(request.args), request.path)
    parameters = _parameters(shown, request.parameters)
    value = await _value(shown, IntrospectAsk(shown.path, parameters, dict(request.query)))
    return introspection_pb2.IntrospectResponse(json=_json(shown, value))


def _shown(prepared: Prepared, path: str) -> Shown:
    declared = prepared.declaration.shown
    if path not in declared:
        raise CallError(
            StatusCode.NOT_FOUND,
            f'this policy does not show the path "{path[:PATH_TEXT_BYTES]}"; its GetInfo lists those it shows',
        )
    return declared[path]


def _parameters(shown: Shown, given: Mapping[str, str]) -> dict[str, str]:
    lacking = [name for name in shown.parameters if not given.get(name)]
    if lacking:
        names = ", ".join(lacking)
        raise invalid(f"parameters lacks {names} of {shown.path}; each parameter of a path has a value")
    return {name: given[name] for name in shown.parameters}


async def _value(shown: Shown, ask: IntrospectAsk) -> object:
    try:
        value = shown.show(ask)
        return await value if inspect.isawaitable(value) else value
    except tuple(_CODES) as error:
        code = next(code for kind, code in _CODES.items() if isinstance(error, kind))
        raise CallError(code, str(error)) from error


def _json(shown: Shown, value: object) -> bytes:
    try:
        # JSON has no NaN and no infinity, and no UTF-8 has half of a surrogate pair.
        text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=_plain)
        encoded = text.encode(errors="replace")
    except (Exception, SystemExit) as error:
        # Also a value that another thread changes meanwhile.
        raise failed(f"what the policy shows at {shown.path} cannot be written as JSON; its log says why") from error
    if len(encoded) > JSON_BYTES:
        raise CallError(
            StatusCode.RESOURCE_EXHAUSTED,
            f"what the policy shows at {shown.path} has {len(encoded)} bytes as JSON; at most {JSON_BYTES} are "
            "allowed, select less with a parameter or the query",
        )
    return encoded


def _plain(value: Any) -> object:
    """What `json` does not know, in its types."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, Set):
        # The order of a set differs between processes.
        return sorted(value, key=str)
    raise TypeError(f"a {type(value).__name__} cannot be written as JSON; convert it to a text, a number or a list")
