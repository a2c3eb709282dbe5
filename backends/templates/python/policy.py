"""Rejects nodes of closed zones.

The operator's args name the label of the zone and the closed zones:
{label: topology.kubernetes.io/zone, closed: [eu-1a]}.
"""

from dataclasses import dataclass

from extender_policy import Args, Info, Node, Pod, Policy, Reads, Verb, Verdict, configured, run


@dataclass(frozen=True)
class Arguments:
    """The operator's args."""

    label: str
    closed: list[str]


class ClosedZones(Policy):
    """Rejects nodes of closed zones."""

    def __init__(self, arguments: Arguments) -> None:
        self._closed = frozenset(arguments.closed)
        # Only this label is sent, and pods for which it is the same share cached answers.
        self._reads = Reads()
        self._zone = self._reads.node_label(arguments.label)

    def info(self) -> Info:
        """What the policy does, and which data it needs."""
        return Info("{{name}}", "0.1.0").filters(Verb.per_node().pure().reads(self._reads))

    def filter(self, pod: Pod, node: Node) -> Verdict:
        """May the pod run on this node?"""
        if node.get(self._zone) in self._closed:
            return Verdict.reject("zone is closed", unresolvable=True)
        return Verdict.accept()


def build(args: Args) -> Policy:
    """The policy for these args."""
    return ClosedZones(args.parse(Arguments))


if __name__ == "__main__":
    run(configured(build, name="{{name}}"))
