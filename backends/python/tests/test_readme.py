"""The README shows what is in the examples."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def test_the_first_policy_is_the_example() -> None:
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    for shown, name in zip(blocks, ("no_arm.py", "test_no_arm.py"), strict=False):
        assert shown == (ROOT / "examples" / "no_arm" / name).read_text()
    lines = sum(block.count("\n") for block in blocks[:2])
    assert lines < 40
