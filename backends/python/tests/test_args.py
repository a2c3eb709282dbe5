"""Args into dataclasses."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

import pytest

from extender_policy import Args, ArgsError, Between, Sized


class Mode(enum.Enum):
    SOFT = "soft"
    HARD = "hard"


@dataclass(frozen=True)
class Rule:
    weight: Annotated[int, Between(0, 255)]

    def __post_init__(self) -> None:
        if self.weight == 13:
            raise ValueError("the weight 13 is reserved; choose another one")


@dataclass(frozen=True)
class Drain:
    label: str
    rules: list[Rule] = field(default_factory=list)
    max_pods: int | None = None
    ratio: Annotated[float, Between(0, 1)] = 0.5
    is_strict: bool = False
    mode: Mode = Mode.SOFT
    level: Literal["low", 3] = "low"
    zones: Annotated[tuple[str, ...], Sized(1)] = ("z1",)
    weights: dict[str, int] = field(default_factory=dict)
    anything: Any = None
    renamed: str = field(default="", metadata={"name": "other-name"})
    either: int | str = 0


def parsed(json: str) -> Drain:
    return Args(json.encode()).parse(Drain)


def test_nothing_and_an_empty_object_are_no_arguments() -> None:
    for json in (b"", b"{}", b" { } ", b"\n"):
        assert Args(json).json == {}
        Args(json).reject_any()
    with pytest.raises(ArgsError, match="this policy takes no args; remove `args`"):
        Args(b'{"a": 1}').reject_any()


def test_args_of_more_than_a_mebibyte_are_refused() -> None:
    assert Args(b"{" + b" " * ((1 << 20) - 2) + b"}").json == {}
    with pytest.raises(ArgsError, match="^args has 1048577 bytes; at most 1048576 are allowed"):
        Args(b"{" + b" " * ((1 << 20) - 1) + b"}")


def test_arguments_are_read_into_the_type() -> None:
    everything = parsed(
        """{"label": "rack", "rules": [{"weight": 1}], "maxPods": 7, "ratio": 1, "isStrict": true, "mode": "hard",
        "level": 3, "zones": ["a", "b"], "weights": {"x": 1}, "anything": [null], "other-name": "n", "either": "e"}"""
    )
    assert everything == Drain("rack", [Rule(1)], 7, 1.0, True, Mode.HARD, 3, ("a", "b"), {"x": 1}, [None], "n", "e")
    assert parsed('{"label": "a", "max_pods": null}') == Drain("a")


@pytest.mark.parametrize(
    ("json", "expected"),
    [
        ("{}", "args: missing field `label`, expected a text"),
        ("7", "args is not a JSON object; write `args: {name: value}`"),
        ('["rack"]', "args is not a JSON object; write `args: {name: value}`"),
        ("{", "args: Expecting property name"),
        ('{"label": "a"} {}', "args: Extra data"),
        ('{"label": "a", "label": "b"}', "args: field `label` is there twice; expected it once"),
        ('{"label": NaN}', "args: NaN is not JSON"),
        ('{"label": 7}', "args.label: invalid value: number `7`, expected a text"),
        ('{"label": null}', "args.label: invalid value: `null`, expected a text"),
        ('{"label": {}}', "args.label: invalid value: an object, expected a text"),
        (
            '{"label": "a", "rules": [{"weight": 1}, {"weight": 300}]}',
            "args.rules[1].weight: invalid value: 300, expected a number from 0 to 255",
        ),
        (
            '{"label": "a", "rules": [{"weight": true}]}',
            "args.rules[0].weight: invalid value: `true`, expected a whole",
        ),
        ('{"label": "a", "rules": [{"weight": 1.0}]}', "args.rules[0].weight: invalid value: number `1.0`, expected a"),
        ('{"label": "a", "rules": [{"weight": 13}]}', "args.rules[0]: the weight 13 is reserved; choose another one"),
        ('{"label": "a", "rules": [{}]}', "args.rules[0]: missing field `weight`, expected a whole number from 0 to"),
        ('{"label": "a", "rules": {}}', "args.rules: invalid value: an object, expected a list"),
        ('{"label": "a", "maxPods": "1"}', 'args.maxPods: invalid value: text `"1"`, expected a whole number'),
        ('{"label": "a", "ratio": 1.5}', "args.ratio: invalid value: 1.5, expected a number from 0 to 1"),
        ('{"label": "a", "ratio": 1e999}', "args.ratio: invalid value: number `Infinity`, expected a number"),
        ('{"label": "a", "mode": "odd"}', 'args.mode: invalid value: text `"odd"`, expected "soft" or "hard"'),
        ('{"label": "a", "level": true}', 'args.level: invalid value: `true`, expected "low" or 3'),
        ('{"label": "a", "zones": []}', "args.zones: invalid length 0, expected a list or map of at least 1"),
        ('{"label": "a", "weights": {"x": "y"}}', 'args.weights.x: invalid value: text `"y"`, expected a whole number'),
        ('{"label": "a", "either": []}', "args.either: invalid value: a list, expected a whole number or a text"),
        ('{"label": "a", "other": 1}', "args.other: unknown field `other`, expected `anything`, `either`, "),
    ],
)
def test_what_is_wrong_is_said_with_its_path(json: str, expected: str) -> None:
    with pytest.raises(ArgsError) as raised:
        parsed(json)
    assert str(raised.value).startswith(expected)


def test_all_mistakes_come_together() -> None:
    with pytest.raises(ArgsError) as raised:
        parsed('{"maxPods": "x", "isStrict": 1}')
    assert str(raised.value).count("; ") == 2


def test_deep_args_are_refused() -> None:
    with pytest.raises(ArgsError):
        parsed('{"label": "a", "anything": ' + "[" * 100_000 + "]" * 100_000 + "}")
