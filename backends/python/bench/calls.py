"""The time of one call about 500 nodes of a table, for the reference policy, at the client.

python bench/calls.py [--nodes 500] [--calls 300] [--inline]
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))

from client import Client, Stream, by_table, inline, question  # noqa: E402

from extender_policy._api.v1alpha1 import info_pb2, node_pb2, pod_pb2, policy_pb2, resources_pb2, table_pb2  # noqa: E402

ARGS = b'{"zone": "zone-9"}'


def row(number: int) -> node_pb2.NodeRow:
    """A node with a taint of every third, and pods of 30 owners."""
    taints = [node_pb2.Taint(key="dedicated", value="batch", effect="NoSchedule")] if number % 3 == 0 else []
    facts = node_pb2.NodeFacts(
        label_values=[f"zone-{number % 8}"],
        taints=taints,
        allocatable=resources_pb2.Resources(milli_cpu=16_000 + number, memory=64 << 30, pods=110),
    )
    counts = [node_pb2.PodCount(value=f"owner-{owner:03}", pods=owner % 3 + 1) for owner in range(30)]
    return node_pb2.NodeRow(name=f"node-{number}", facts=facts, pod_counts=[node_pb2.PodCounts(counts=counts)])


def pod() -> pod_pb2.Pod:
    """A pod that tolerates the taint."""
    return pod_pb2.Pod(
        facts=pod_pb2.PodFacts(
            owner=pod_pb2.OwnerReference(api_version="apps/v1", kind="ReplicaSet", name="web", uid="owner-012"),
            requests=resources_pb2.Resources(milli_cpu=500, pods=1),
            tolerations=[
                pod_pb2.Toleration(key="node.kubernetes.io/not-ready", operator="Exists", effect="NoExecute"),
                pod_pb2.Toleration(key="dedicated", operator="Equal", value="batch"),
            ],
            label_values=["web"],
        )
    )


def measure(name: str, calls: int, call: Callable[[], object]) -> None:
    """Prints quantiles in milliseconds."""
    times = []
    for _ in range(calls):
        begin = time.perf_counter()
        call()
        times.append((time.perf_counter() - begin) * 1e3)
    first, times = times[0], sorted(times[calls // 10 :])
    slow = times[int(len(times) * 0.99)]
    print(f"{name:28} median {statistics.median(times):6.2f} ms  99 % {slow:6.2f} ms  first {first:6.2f} ms")


def main() -> None:
    """Starts the reference policy and calls it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=500)
    parser.add_argument("--calls", type=int, default=300)
    given = parser.parse_args()
    command = [sys.executable, str(ROOT / "examples" / "reference" / "reference.py")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        address = server.stdout.readline().removeprefix("listening on ").strip()
        try:
            with Client(address) as client:
                compare(client, given.nodes, given.calls)
        finally:
            server.terminate()


def compare(client: Client, nodes: int, calls: int) -> None:
    """By table, with scores, inline, and a call about one node."""
    verb = next(verb for verb in client.get_info(ARGS).verbs if verb.verb == info_pb2.VERB_FILTER)
    rows = [row(number) for number in range(nodes)]
    stream = Stream(client)
    upserts = [table_pb2.TableEntry(id=at + 1, row=one) for at, one in enumerate(rows)]
    view = table_pb2.TableView(node_view=info_pb2.NODE_VIEW_FACTS, reads=verb.reads.node)
    begin = time.perf_counter()
    stream.send(table_pb2.SyncNodesRequest(table=7, version=1, view=view, upserts=upserts, complete=True))
    print(f"{nodes} rows are applied in {(time.perf_counter() - begin) * 1e3:.1f} ms")
    fields = {"reads": verb.reads.id, "args": ARGS}
    by_id = question(by_table(7, range(1, nodes + 1)), pod(), **fields)
    scored = question(by_table(7, range(1, nodes + 1)), pod(), **fields)
    scored.want_scores = True
    score = policy_pb2.ScoreRequest(call=by_id.call, pod=by_id.pod, nodes=by_id.nodes)
    in_full = question(inline(rows), pod(), **fields)
    one = question(by_table(7, [1]), pod(), **fields)
    assert client.filter(by_id).result.evaluated == nodes
    measure(f"filter, {nodes} by table", calls, lambda: client.filter(by_id))
    measure(f"score, {nodes} by table", calls, lambda: client.score(score))
    measure(f"filter with scores, {nodes}", calls, lambda: client.filter(scored))
    measure(f"filter, {nodes} inline", calls, lambda: client.filter(in_full))
    measure("filter, 1 by table", calls, lambda: client.filter(one))
    stream.reset()


if __name__ == "__main__":
    main()
