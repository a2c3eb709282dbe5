"""Raw objects as Go reads them."""

from __future__ import annotations

import pytest

from extender_policy._kubernetes import parsed


@pytest.mark.parametrize(
    "strange",
    [
        b'{"f:\xff": {}}',
        b"[" * 9000 + b'"]\\""' + b"]" * 9000,
        b'{"a":' * 9000 + b"{}" + b"}" * 9000,
        b"9" * 5000,
        b"1e400",
        b'"\\ud800"',
    ],
)
def test_an_object_is_read_whatever_its_managed_fields_have(strange: bytes) -> None:
    raw = b'{"metadata": {"managedFields": [{"fieldsV1": ' + strange + b'}], "name": "a"}, "spec": {"x": [[1]]}}'
    node = parsed(raw)
    assert (node["metadata"]["name"], node["spec"]) == ("a", {"x": [[1]]})


def test_what_is_no_json_is_an_error() -> None:
    with pytest.raises(ValueError, match="Expecting"):
        parsed(b'{"metadata": ')
