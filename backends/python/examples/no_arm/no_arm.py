"""Rejects arm64 nodes."""

from extender_policy import Info, Node, Pod, Policy, Reads, Verb, Verdict, run

ARCH = "kubernetes.io/arch"


class NoArm(Policy):
    """arm64 nodes are not in use yet."""

    def info(self) -> Info:
        reads = Reads()
        reads.node_label(ARCH)
        return Info("no-arm", "0.1.0").filters(Verb.per_node().pure().reads(reads))

    def filter(self, pod: Pod, node: Node) -> Verdict:
        if node.label(ARCH) == "arm64":
            return Verdict.reject("arm64 nodes are not in use yet", unresolvable=True)
        return Verdict.accept()


if __name__ == "__main__":
    run(NoArm())
