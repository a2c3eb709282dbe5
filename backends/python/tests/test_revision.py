"""The revision of a policy that names none."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType

import pytest

from extender_policy import Info, Node, Pod, Policy, Verb, Verdict, testing
from extender_policy._program import program_digest


class Accepts(Policy):
    def info(self) -> Info:
        return Info("accepts", "1.2").filters(Verb.per_node())

    def filter(self, pod: Pod, node: Node) -> Verdict:
        return Verdict.accept()


@pytest.mark.parametrize("package", ["", "acme.policies"])
def test_it_is_that_of_the_program(package: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def revision(replica: str, rules: str) -> str:
        """Of a process whose policy is in a module of these sources."""
        top = tmp_path / replica / "acme" if package else tmp_path / replica
        (top / "policies").mkdir(parents=True)
        names = ("__init__.py", "policies/own.py", "policies/rules.py") if package else ("own.py", "rules.py")
        for name in names:
            (top / name).write_text(rules if "rules" in name else "")
        for name, file in (("acme", top / "__init__.py"), ("own", top / ("policies/own.py" if package else "own.py"))):
            module = ModuleType(name)
            module.__package__, module.__file__ = package, str(file)
            monkeypatch.setitem(sys.modules, name, module)
        program_digest.cache_clear()
        return testing.info(Accepts()).revision

    monkeypatch.setattr(Accepts, "__module__", "own")
    first = revision("first", "rules")
    assert first.startswith("1.2+") and len(first) == 16
    assert revision("second", "rules") == first != revision("edited", "other rules")
    (tmp_path / "edited" / ("acme" if package else ".") / ".#own.py").symlink_to("somebody@elsewhere")
    program_digest.cache_clear()
    assert testing.info(Accepts()).revision == "1.2"
