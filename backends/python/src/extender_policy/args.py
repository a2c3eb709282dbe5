"""The operator's arguments for one configured policy, read into dataclasses.

The checker is the SDK's own, a page of code: errors name the path as the operator wrote it (`args.rules[2].weight`) and
what is expected, all of them together, and no validation library becomes a dependency of every policy. A policy that
prefers one reads `Args.json`.
"""

from __future__ import annotations

import dataclasses
import enum
import json
import math
import types
import typing
from typing import Any, Literal, NamedTuple, TypeVar, Union, cast, get_args, get_origin

from ._limits import ARGS_BYTES
from .errors import ArgsError

T = TypeVar("T")

MAX_DEPTH = 64
"""Deeper args are rejected, before a recursion is."""


class Between(NamedTuple):
    """The numbers that are allowed, both included: `Annotated[int, Between(1, 1000)]`."""

    least: float
    largest: float

    def __str__(self) -> str:
        return f"from {self.least} to {self.largest}"


class Sized(NamedTuple):
    """How many elements a list or a map has, or characters a text: `Annotated[list[str], Sized(1)]`."""

    least: int
    most: int | None = None

    def __str__(self) -> str:
        return f"of at least {self.least}" if self.most is None else f"of {self.least} to {self.most}"


def check_size(encoded: bytes) -> None:
    """Raises `ArgsError` for more than 1 MiB."""
    if len(encoded) > ARGS_BYTES:
        raise ArgsError(
            f"args has {len(encoded)} bytes; at most {ARGS_BYTES} are allowed, "
            "put longer lists into a file of the policy"
        )


class Args:
    """What the operator wrote under `args:` for this backend, as one JSON object."""

    def __init__(self, encoded: bytes) -> None:
        """Arguments as they come in a request: a JSON object in UTF-8, or nothing.

        Raises `ArgsError` for JSON of another kind, and for more than 1 MiB.
        """
        check_size(encoded)
        try:
            value = json.loads(
                encoded.strip() or b"{}", object_pairs_hook=_without_repetition, parse_constant=_no_constant
            )
        except (ValueError, RecursionError) as error:
            raise error if isinstance(error, ArgsError) else ArgsError(f"args: {error}") from error
        if not isinstance(value, dict):
            raise ArgsError("args is not a JSON object; write `args: {name: value}`")
        self.json: dict[str, Any] = value
        """The object as `json` decodes it; empty if there are no arguments."""

    def parse(self, into: type[T]) -> T:
        """The arguments as a dataclass; without arguments, from an empty object.

        Fields are of the types `str`, `int`, `float`, `bool`, dataclasses, enumerations (by value), `Literal`,
        `list[...]`, `tuple[..., ...]`, `dict[str, ...]` and unions with `None`; `Annotated` with `Between` and `Sized`
        limits them. The metadata `{"name": "..."}` of a field is its name in the args; default: that in camelCase, or
        as in the class. A `ValueError` of `__post_init__` is reported with the path of the object.

        Raises `ArgsError` with all mistakes, each with its path, such as `args.rules[2].weight`.
        """
        reader = _Reader()
        value = reader.read(into, self.json, "args", 0)
        if reader.mistakes:
            raise ArgsError("; ".join(reader.mistakes))
        return cast("T", value)

    def reject_any(self) -> None:
        """For policies that take no arguments."""
        if self.json:
            raise ArgsError("this policy takes no args; remove `args` from its entry in the configuration")


def _without_repetition(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise ArgsError(f"args: field `{name}` is there twice; expected it once")
        found[name] = value
    return found


def _no_constant(name: str) -> None:
    raise ArgsError(f"args: {name} is not JSON")


_INVALID = object()


class _Reader:
    """Reads JSON into types, and collects what is wrong with it."""

    def __init__(self) -> None:
        self.mistakes: list[str] = []

    def read(self, kind: Any, value: Any, path: str, depth: int) -> Any:
        """The value as this type; `_INVALID` after a mistake."""
        if depth > MAX_DEPTH:
            return self._wrong(path, f"is more than {MAX_DEPTH} levels deep")
        if get_origin(kind) is typing.Annotated:
            inner, *limits = get_args(kind)
            return self._limited(self.read(inner, value, path, depth), limits, path)
        if dataclasses.is_dataclass(kind):
            return self._object(cast("type[Any]", kind), value, path, depth)
        origin, arguments = get_origin(kind), get_args(kind)
        if origin in (Union, types.UnionType):
            return self._union(arguments, value, path, depth)
        if origin is Literal:
            return value if _is_one_of(value, arguments) else self._unexpected(path, value, _either(arguments))
        if origin in (list, tuple):
            return self._list(origin, arguments, value, path, depth)
        if origin is dict:
            return self._map(arguments, value, path, depth)
        if isinstance(kind, type) and issubclass(kind, enum.Enum):
            return self._member(kind, value, path)
        return self._plain(kind, value, path)

    def _object(self, kind: type[Any], value: Any, path: str, depth: int) -> Any:
        if not isinstance(value, dict):
            return self._unexpected(path, value, "an object")
        before = len(self.mistakes)
        hints = typing.get_type_hints(kind, include_extras=True)
        fields = {_name(field, value): field for field in dataclasses.fields(kind) if field.init}
        for name in value.keys() - fields.keys():
            self._wrong(f"{path}.{name}", f"unknown field `{name}`, expected {_either(sorted(fields), '`') or 'none'}")
        given = {}
        for name, field in fields.items():
            if name in value:
                given[field.name] = self.read(hints[field.name], value[name], f"{path}.{name}", depth + 1)
            elif field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING:
                self._wrong(path, f"missing field `{name}`, expected {described(hints[field.name])}")
        if len(self.mistakes) > before:
            return _INVALID
        try:
            return kind(**given)
        except ValueError as error:
            return self._wrong(path, str(error))

    def _union(self, kinds: tuple[Any, ...], value: Any, path: str, depth: int) -> Any:
        if value is None and type(None) in kinds:
            return None
        kinds = tuple(kind for kind in kinds if kind is not type(None))
        if len(kinds) == 1:
            return self.read(kinds[0], value, path, depth)
        for kind in kinds:
            attempt = _Reader()
            read = attempt.read(kind, value, path, depth)
            if not attempt.mistakes:
                return read
        return self._unexpected(path, value, " or ".join(described(kind) for kind in kinds))

    def _list(self, origin: Any, kinds: tuple[Any, ...], value: Any, path: str, depth: int) -> Any:
        if not isinstance(value, list):
            return self._unexpected(path, value, "a list")
        read = [self.read(kinds[0], element, f"{path}[{at}]", depth + 1) for at, element in enumerate(value)]
        return origin(read)

    def _map(self, kinds: tuple[Any, ...], value: Any, path: str, depth: int) -> Any:
        if not isinstance(value, dict):
            return self._unexpected(path, value, "a map")
        return {key: self.read(kinds[1], entry, f"{path}.{key}", depth + 1) for key, entry in value.items()}

    def _member(self, kind: type[enum.Enum], value: Any, path: str) -> Any:
        members = [member.value for member in kind]
        return kind(value) if _is_one_of(value, members) else self._unexpected(path, value, _either(members))

    def _plain(self, kind: Any, value: Any, path: str) -> Any:
        if kind is Any:
            return value
        if kind is float and type(value) is int:
            try:
                return float(value)
            except OverflowError:
                return self._unexpected(path, value, "a number")
        # True is no number.
        if type(value) is kind and not (kind is float and not math.isfinite(value)):
            return value
        return self._unexpected(path, value, described(kind))

    def _limited(self, value: Any, limits: list[Any], path: str) -> Any:
        for limit in limits:
            if value is _INVALID or value is None:
                return value
            if isinstance(limit, Between) and not limit.least <= value <= limit.largest:
                return self._wrong(path, f"invalid value: {json.dumps(value)}, expected a number {limit}")
            if isinstance(limit, Sized) and not limit.least <= len(value) <= (limit.most or len(value)):
                what = "a text" if isinstance(value, str) else "a list or map"
                return self._wrong(path, f"invalid length {len(value)}, expected {what} {limit}")
        return value

    def _unexpected(self, path: str, value: Any, expected: str) -> Any:
        return self._wrong(path, f"invalid value: {_shown(value)}, expected {expected}")

    def _wrong(self, path: str, text: str) -> Any:
        self.mistakes.append(f"{path}: {text}")
        return _INVALID


def described(kind: Any) -> str:
    """What a value of this type is, for operators."""
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is typing.Annotated:
        limits = [str(limit) for limit in arguments[1:] if isinstance(limit, Between | Sized)]
        return " ".join([described(arguments[0]), *limits])
    if origin in (Union, types.UnionType):
        return " or ".join(described(one) for one in arguments if one is not type(None))
    if origin is Literal:
        return _either(arguments)
    plain = {str: "a text", int: "a whole number", float: "a number", bool: "true or false", list: "a list"}
    return plain.get(origin or kind, "a list" if origin is tuple else "a map" if origin is dict else "an object")


def _name(field: dataclasses.Field[Any], value: dict[str, Any]) -> str:
    """The name in the args. Operators write camelCase as everywhere in Kubernetes; snake_case is understood, too."""
    named = field.metadata.get("name")
    if named is not None:
        return str(named)
    first, *rest = field.name.split("_")
    camel = first + "".join(part.capitalize() for part in rest)
    return field.name if field.name in value and camel not in value else camel


def _is_one_of(value: Any, choices: Any) -> bool:
    # True equals 1 in Python, and is another value in JSON.
    return any(type(value) is type(choice) and value == choice for choice in choices)


def _either(choices: Any, quote: str = '"') -> str:
    texts = [f"{quote}{choice}{quote}" if isinstance(choice, str) else json.dumps(choice) for choice in choices]
    return " or ".join(filter(None, (", ".join(texts[:-1]), *texts[-1:])))


def _shown(value: Any) -> str:
    if isinstance(value, list | dict):
        return "a list" if isinstance(value, list) else "an object"
    kind = {str: "text ", int: "number ", float: "number "}.get(type(value), "")
    text = json.dumps(value, ensure_ascii=False)
    return f"{kind}`{text if len(text) <= 64 else text[:64] + '…'}`"
