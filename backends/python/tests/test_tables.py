"""The node table, over sockets, with both servers."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from client import Client, Stream, by_table, inline, pod, question, reads_of, reason, row, until, values
from conftest import Serve
from grpc import StatusCode

from extender_policy import Info, Node, NodePart, Pod, PodsBy, Policy, Reads, Taint, Verb, Verdict, _question, _row
from extender_policy._api.sdk import wire_pb2
from extender_policy._api.v1beta1 import info_pb2, node_pb2, policy_pb2, resources_pb2, table_pb2
from extender_policy._declaration import RowParts
from extender_policy._row import Row, RowContent
from extender_policy._tables import Filling, Tables


class Names(Policy):
    """Rejects every node by its name and rack."""

    def info(self) -> Info:
        return Info("names", "1").filters(Verb.per_node().reads(Reads.everything()))

    def filter(self, pod: Pod, node: Node) -> Verdict:
        return Verdict.reject(f"{node.name}={node.label('rack')}")


EVERYTHING = info_pb2.NodeReads(everything=True)


def message(
    version: int,
    upserts: dict[int, node_pb2.NodeRow] | None = None,
    removed: Sequence[int] = (),
    table: str = "t7",
    reads: info_pb2.NodeReads | None = EVERYTHING,
    **fields: Any,
) -> table_pb2.SyncNodesRequest:
    entries = [table_pb2.TableEntry(id=node, row=one) for node, one in (upserts or {}).items()]
    return table_pb2.SyncNodesRequest(
        table=table, version=version, reads=reads, upserts=entries, removed=removed, **fields
    )


def racked(name: str, rack: str) -> node_pb2.NodeRow:
    return row(name, rack=rack)


def reasons(client: Client, nodes: node_pb2.Nodes, **fields: Any) -> list[str] | int:
    """The reasons in the order of the nodes, or the miss."""
    answer = client.filter(question(nodes, **fields))
    if answer.result.HasField("miss"):
        # Nothing else, not even a revision.
        assert answer == policy_pb2.FilterResponse(result=policy_pb2.Result(miss=answer.result.miss))
        return answer.result.miss
    assert answer.result.evaluated == nodes.count
    found = {position: one.reason for one in answer.rejections for position in one.positions}
    return [found[position] for position in range(nodes.count)]


def test_a_table_ends_with_its_stream_however_it_ends(serve: Serve) -> None:
    client = serve(Names())
    first, second = Stream(client), Stream(client)
    first.send(message(1, {1: racked("a", "r1")}, table="t1"))
    second.send(message(1, {1: racked("a", "r2")}, table="t2"))
    assert reasons(client, by_table("t1", [1])) == ["a=r1"]
    first.reset()
    until(lambda: reasons(client, by_table("t1", [1])) == policy_pb2.MISS_TABLE_UNKNOWN)
    assert reasons(client, by_table("t2", [1])) == ["a=r2"]
    assert second.fail(message(1, table="t2"))[0] is StatusCode.INVALID_ARGUMENT
    until(lambda: reasons(client, by_table("t2", [1])) == policy_pb2.MISS_TABLE_UNKNOWN)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("", "table is missing; it is a random text, the same in all messages of a stream"),
        ("t" * 65, "table is no text of at most 64 bytes of printable ASCII"),
        ("t\n", "table is no text of at most 64 bytes of printable ASCII"),
        ("tä", "table is no text of at most 64 bytes of printable ASCII"),
        ("taken", 'table "taken" already has a stream; names of tables must be random'),
    ],
)
def test_the_name_of_a_table_is_a_text(serve: Serve, name: str, expected: str) -> None:
    client = serve(Names())
    taken, longest = Stream(client), Stream(client)
    taken.send(message(1, table="taken"))
    assert longest.send(message(1, table="~ " * 32)) == 1
    assert Stream(client).fail(message(1, table=name)) == (StatusCode.INVALID_ARGUMENT, expected)
    renamed = 'table is no longer "taken"; it is the same in all messages of a stream'
    assert taken.fail(message(2, table="other")) == (StatusCode.INVALID_ARGUMENT, renamed)


def test_there_are_at_most_64_tables(serve: Serve) -> None:
    client = serve(Names())
    streams = [Stream(client) for _ in range(64)]
    for at, stream in enumerate(streams):
        stream.send(message(1, {1: racked(f"n{at}", "r")}, table=f"t{at + 1}"))
    refused = Stream(client)
    code, text = refused.fail(message(1, table="t99"))
    assert (code, text) == (StatusCode.RESOURCE_EXHAUSTED, "this backend already holds 64 tables, the maximum")
    assert reason(refused.call) == "OVERLOADED"
    assert reasons(client, by_table("t64", [1])) == ["n63=r"]
    streams[0].reset()
    until(lambda: reasons(client, by_table("t1", [1])) == policy_pb2.MISS_TABLE_UNKNOWN)
    assert Stream(client).send(message(1, table="t99")) == 1


def test_rows_of_a_declaration_have_values(serve: Serve) -> None:
    reads = Reads().node(NodePart.NAME)
    rack = reads.node_label("rack")
    owner = reads.pods_by(PodsBy.OWNER)

    class Declared(Policy):
        def info(self) -> Info:
            return Info("declared", "1").filters(Verb.per_node().pure().reads(reads))

        def filter(self, pod: Pod, node: Node) -> Verdict:
            return Verdict.reject(f"{node.name} {node.get(rack)} {node.pods_like(owner, pod)}")

    client = serve(Declared())
    declared = client.get_info().verbs[0].reads
    stream = Stream(client)
    counts = node_pb2.PodCounts(counts=[node_pb2.PodCount(value="u1", pods=2)])
    facts = node_pb2.NodeFacts(labels=values("r1"))
    lacking = node_pb2.NodeFacts(labels=values("", absent=[0]))
    rows = {
        1: node_pb2.NodeRow(name="a", facts=facts, pod_counts=[counts]),
        2: node_pb2.NodeRow(name="b", facts=facts, pod_counts=[counts]),
        3: node_pb2.NodeRow(name="c", facts=lacking, pod_counts=[node_pb2.PodCounts()]),
    }
    stream.send(message(1, rows, reads=declared.node))
    placed = pod(owner={"uid": "u1"}, namespace="")
    request = question(by_table("t7", [3, 2, 1]), placed, reads=reads_of(client))
    for _ in range(3):
        found = [rejection.reason for rejection in client.filter(request).rejections]
        assert found == ["c None PodsLike(0..=0)", "b r1 PodsLike(2..=2)", "a r1 PodsLike(2..=2)"]
    code, text = stream.fail(message(2, {1: node_pb2.NodeRow(name="a", facts=facts)}))
    assert (code, text) == (StatusCode.INVALID_ARGUMENT, "upserts[0].row.pod_counts has 0 entries, and 1 are declared")


def test_the_first_message_says_what_the_rows_contain(serve: Serve) -> None:
    client = serve(Names())
    expected = StatusCode.INVALID_ARGUMENT, "reads is missing; the first message says what the rows contain"
    assert Stream(client).fail(message(1, reads=None)) == expected
    stream = Stream(client)
    stream.send(message(1, {1: racked("a", "r1")}))
    stream.send(message(2, {2: racked("b", "r2")}, reads=None))
    assert reasons(client, by_table("t7", [1, 2])) == ["a=r1", "b=r2"]


def test_a_table_of_other_rows_is_not_held(serve: Serve) -> None:
    client = serve(Names())
    with_usage = info_pb2.NodeReads(everything=True, parts=["NODE_PART_USAGE"])
    for reads in (with_usage, info_pb2.NodeReads(parts=["NODE_PART_NAME"]), info_pb2.NodeReads()):
        stream = Stream(client)
        stream.send(message(1, {1: racked("a", "r1")}, reads=reads))
        assert reasons(client, by_table("t7", [1])) == policy_pb2.MISS_TABLE_UNKNOWN
        stream.end()


def test_rows_that_differ_by_their_names_share_one_content() -> None:
    tables = Tables()
    filling = Filling(tables)
    rows = {at: racked(f"n{at}", "r1") for at in range(1, 101)}
    assert list(filling.apply(message(1, rows).SerializeToString())) == [None]
    table = tables.find("t7")
    assert table is not None
    assert len({id(one.content) for one in table.current.by_id.values()}) == 1
    shared = tables.size
    list(filling.apply(message(2, {200: racked("x", "r2")}).SerializeToString()))
    list(filling.apply(message(3, removed=[200]).SerializeToString()))
    assert tables.size == shared
    list(filling.apply(message(4, {at: racked(f"n{at}", f"r{at}") for at in range(1, 101)}).SerializeToString()))
    assert tables.size > 3 * shared
    list(filling.apply(message(5, removed=list(rows)).SerializeToString()))
    assert tables.size == 0
    list(filling.apply(message(6, rows).SerializeToString()))
    filling.close()
    assert (tables.size, tables.find("t7")) == (0, None)


def test_rows_of_more_than_the_limit_are_refused() -> None:
    tables = Tables(max_bytes=200_000)
    first, second = Filling(tables), Filling(tables)
    large = {at: racked(f"n{at}", "x" * 900 + str(at)) for at in range(1, 21)}
    list(first.apply(message(1, large).SerializeToString()))
    from extender_policy._errors import CallError

    with pytest.raises(CallError, match="the rows of all tables would need more than 200000 bytes; more are refused"):
        list(second.apply(message(1, large, table="t8").SerializeToString()))
    second.close()
    table = tables.find("t7")
    assert table is not None
    assert len(table.current.by_id) == 20
    first.close()
    assert tables.size == 0


def test_rows_of_the_last_call_are_not_decoded_again(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    decoded: list[str] = []

    def decode(encoded: bytes, parts: RowParts) -> Row:
        row = _row.decoded(encoded, parts)
        decoded.append(row.name)
        return row

    monkeypatch.setattr(_question, "decoded", decode)
    client = serve(Names())
    rows = [racked(name, "r1") for name in "abc"]
    moved = racked("b", "r2")
    for nodes, expected in (
        (rows, ["a", "b", "c"]),
        (rows[::-1], []),
        ([rows[0], moved, rows[2]], ["b"]),
        # Those before are gone, and a table does not replace them.
        (rows[:1], []),
        (rows[:2], ["b"]),
    ):
        decoded.clear()
        assert reasons(client, inline(nodes)) == [f"{node.name}={node.facts.labels.entries['rack']}" for node in nodes]
        assert decoded == expected
        stream = Stream(client)
        stream.send(message(1, {1: racked("d", "r")}))
        assert reasons(client, by_table("t7", [1, 0], rows=[moved])) == ["d=r", "b=r2"]
        stream.end()


def test_equal_parts_of_rows_are_decoded_once() -> None:
    parts = RowParts(info_pb2.NodeReads(parts=["NODE_PART_TAINTS"], labels=info_pb2.MapReads(keys=["a"])))

    def decoded(taint: str) -> RowContent:
        facts = node_pb2.NodeFacts(taints=[node_pb2.Taint(key=taint)], labels=values("x"))
        return _row.decoded(node_pb2.NodeRow(facts=facts).SerializeToString(), parts).content

    for taint, is_shared in (("k", True), ("k" * 600, False)):
        first, second = decoded(taint), decoded(taint)
        assert first.taints == second.taints
        assert (first.taints[0] is second.taints[0]) is is_shared
        assert first.label_values is second.label_values
    for at in range(_row.MAX_SHARED + 1):
        decoded(f"{at}")
    assert len(_row._TAINTS) < _row.MAX_SHARED


def test_what_the_check_of_a_row_has_decoded_is_not_decoded_again(monkeypatch: pytest.MonkeyPatch) -> None:
    decoded: list[bytes] = []

    def decode(encoded: bytes) -> wire_pb2.NodeRow:
        decoded.append(encoded)
        return wire_pb2.NodeRow.FromString(encoded)

    monkeypatch.setattr(_row, "wire_pb2", SimpleNamespace(NodeRow=SimpleNamespace(FromString=decode)))
    keys = info_pb2.MapReads(keys=["a"])
    reads = info_pb2.NodeReads(parts=["NODE_PART_TAINTS"], labels=keys, annotations=keys)
    facts = node_pb2.NodeFacts(
        taints=[node_pb2.Taint(key="k", effect="NoSchedule")], labels=values("x"), annotations=values("y")
    )
    tables = Tables()
    list(Filling(tables).apply(message(1, {1: node_pb2.NodeRow(facts=facts)}, reads=reads).SerializeToString()))
    table = tables.find("t7")
    assert table is not None
    content = table.current.by_id[1].content
    assert (content.label_values, content.annotation_values, content.taints) == (("x",), ("y",), (Taint("k"),))
    assert len(decoded) == 1


def test_labels_that_come_in_parts_are_joined() -> None:
    parts = RowParts(info_pb2.NodeReads(labels=info_pb2.MapReads(keys=["a", "b"])))
    halves = [node_pb2.NodeRow(facts=node_pb2.NodeFacts(labels=values(value))) for value in "xy"]
    row = _row.decoded(b"".join(half.SerializeToString() for half in halves), parts)
    assert row.content.label_values == ("x", "y")
    row.content.read("label_values")
    assert row.content.label_values == ("x", "y")


def test_the_last_rows_are_bounded() -> None:
    tables = Tables()
    rows = {b"x": Row("a", RowContent(b""))}
    for number in range(9):
        tables.keep_last(b"%d" % number, rows)
    assert [tables.last(b"%d" % number) for number in range(9)] == [{}, *[rows] * 8]
    tables.keep_last(b"8", {bytes(2 << 20): rows[b"x"]})
    assert tables.last(b"8") == {}


def test_usage_nominated_pods_and_json_are_kept(serve: Serve) -> None:
    reads = Reads().node(NodePart.USAGE, NodePart.RAW_JSON, NodePart.NOMINATED)

    class Raw(Policy):
        def info(self) -> Info:
            return Info("raw", "1").filters(Verb.per_node().reads(reads))

        def filter(self, pod: Pod, node: Node) -> Verdict:
            sums = (sums and sums.requested.pods for sums in (node.usage, node.nominated))
            return Verdict.reject(f"{node.raw_json!r} {[*sums]}")

    client = serve(Raw())
    stream = Stream(client)
    full = node_pb2.NodeRow(
        facts=node_pb2.NodeFacts(),
        raw_json=b'{"kind": "Node"}',
        usage=node_pb2.NodeUsage(requested=resources_pb2.Resources(pods=3)),
        nominated=node_pb2.NodeUsage(requested=resources_pb2.Resources(pods=2)),
    )
    empty = node_pb2.NodeRow(facts=node_pb2.NodeFacts())
    stream.send(message(1, {1: full, 2: empty}, reads=client.get_info().verbs[0].reads.node))
    for nodes in (by_table("t7", [1, 2]), inline([full, empty])):
        found = reasons(client, nodes, reads=reads_of(client))
        assert found == ['b\'{"kind": "Node"}\' [3, 2]', "None [None, None]"]
