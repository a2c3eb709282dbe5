"""Declarations of what a verb reads."""

from __future__ import annotations

import random
import subprocess
import sys
from hashlib import sha256

import pytest

from extender_policy import Info, NodePart, PodPart, PodsBy, Reads, UndeclaredRead, Verb
from extender_policy._api.v1beta1 import info_pb2
from extender_policy._declaration import Declaration
from extender_policy._layout import ENTRY, Layout


def test_keys_are_sent_by_their_bytes_once_and_without_those_of_prefixes() -> None:
    reads = Reads()
    for key in ("b", "ä", "B", "a/x", "b", "\U0001f600", "\uffff"):
        reads.node_label(key)
    for prefix in ("a/", "a/b", "z"):
        reads.node_labels(prefix)
    node = Layout(reads).message.node
    keys = list(node.labels.keys)
    assert keys == sorted(["b", "ä", "B", "\U0001f600", "\uffff"], key=str.encode)
    assert list(node.labels.prefixes) == ["a/", "z"]


def test_parts_are_sent_in_ascending_order() -> None:
    reads = Reads().node(NodePart.NAME, NodePart.TAINTS).pod(PodPart.VOLUMES, PodPart.NAMESPACE, PodPart.VOLUMES)
    message = Layout(reads).message
    assert (list(message.node.parts), list(message.pod.parts)) == ([1, 6], [2, 11])


def test_counts_are_sent_in_ascending_order_and_once() -> None:
    reads = Reads()
    reads.pods_by(PodsBy.PRIORITY_CLASS)
    reads.pods_by(PodsBy.label("b"))
    reads.pods_and_requests_by(PodsBy.label("a"))
    reads.pods_by(PodsBy.label("a"))
    reads.pods_by(PodsBy.OWNER)
    message = Layout(reads).message
    found = [(count.by, count.label, count.requests) for count in message.node.pod_counts]
    assert found == [(1, "", False), (3, "a", True), (3, "b", False), (4, "", False)]
    assert (list(message.pod.parts), list(message.pod.labels.keys)) == ([2, 3, 5], ["a", "b"])


def test_counts_by_topology_are_sent_in_ascending_order_and_once() -> None:
    reads = Reads()
    reads.pods_by_topology(PodsBy.PRIORITY_CLASS, "")
    reads.pods_by_topology(PodsBy.label("b"), "rack")
    reads.pods_by_topology(PodsBy.label("a"), "zone")
    reads.pods_and_requests_by_topology(PodsBy.label("a"), "Zone")
    reads.pods_by_topology(PodsBy.label("a"), "")
    reads.pods_and_requests_by_topology(PodsBy.OWNER, "zone")
    reads.pods_by_topology(PodsBy.OWNER, "zone")
    message = Layout(reads).message
    found = [(count.by, count.label, count.topology_key, count.requests) for count in message.pod.topology_counts]
    assert found == [
        (1, "", "zone", True),
        (3, "a", "", False),
        (3, "a", "Zone", True),
        (3, "a", "zone", False),
        (3, "b", "rack", False),
        (4, "", "", False),
    ]
    assert (list(message.pod.parts), list(message.pod.labels.keys)) == ([2, 3, 5], ["a", "b"])
    assert message.node == info_pb2.NodeReads(labels=info_pb2.MapReads(keys=["Zone", "rack", "zone"]))


def test_the_digest_is_that_of_the_declaration_in_every_process() -> None:
    code = (
        "from extender_policy import *; r = Reads(); r.node_label('b'); r.node_label('a'); r.pod_labels('x/');"
        "r.node(NodePart.TAINTS); r.pods_by(PodsBy.OWNER);"
        "from extender_policy._layout import Layout; print(Layout(r).digest.hex())"
    )
    digests = {
        subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.strip()
        for _ in range(2)
    }
    reads = Reads()
    reads.pods_by(PodsBy.OWNER)
    reads.node(NodePart.TAINTS)
    reads.pod_labels("x/")
    reads.node_label("a")
    reads.node_label("b")
    assert digests == {Layout(reads).digest.hex()}


def test_the_digest_is_that_of_the_bytes_of_the_handshake() -> None:
    reads = Reads()
    reads.node_label("a")
    sent = bytes.fromhex("1a05" + "1203" + "0a0161")
    assert Layout(reads).digest == sha256(sent).digest()
    assert Layout(Reads()).digest == sha256(b"").digest()
    declaration = Declaration(Info("p", "1").filters(Verb.per_node().reads(reads)).preempts(Verb.per_node()))
    assert sent in declaration.response.SerializeToString()
    assert declaration.digests == {"Filter": sha256(sent).digest(), "Preempt": sha256(b"").digest()}


def test_everything_is_sent_as_one_flag_and_with_what_it_does_not_include() -> None:
    everything = bytes.fromhex("1202" + "2801" + "1a02" + "2801")
    assert Layout(Reads.everything()).message.SerializeToString() == everything
    reads = Reads.everything().node(NodePart.NAME, NodePart.TAINTS).pod(PodPart.OWNER, PodPart.NAMESPACE)
    for declare in (reads.node_label, reads.node_labels, reads.pod_label, reads.pod_labels):
        declare("zone")
    assert Layout(reads).message.SerializeToString() == everything
    reads.node(NodePart.RAW_JSON, NodePart.USAGE).pod(PodPart.RAW_JSON, PodPart.IDENTITY)
    reads.node_annotation("a")
    reads.pod_annotations("b")
    reads.pods_by(PodsBy.NAMESPACE)
    reads.pods_by_topology(PodsBy.label("app"), "zone")
    assert Layout(reads).message == info_pb2.Reads(
        pod=info_pb2.PodReads(
            everything=True,
            parts=["POD_PART_IDENTITY", "POD_PART_RAW_JSON"],
            annotations=info_pb2.MapReads(prefixes=["b"]),
            topology_counts=[info_pb2.TopologyCountReads(by="POD_COUNT_BY_LABEL", label="app", topology_key="zone")],
        ),
        node=info_pb2.NodeReads(
            everything=True,
            parts=["NODE_PART_USAGE", "NODE_PART_RAW_JSON"],
            annotations=info_pb2.MapReads(keys=["a"]),
            pod_counts=[info_pb2.PodCountReads(by="POD_COUNT_BY_NAMESPACE")],
        ),
    )


def test_reading_what_is_not_declared_names_the_right_declaration() -> None:
    reads = Reads()
    reads.pod_label("a")
    reads.pod_labels("x/")
    access = Layout(reads).pod
    assert (access.labels["a"], access.labels["x/y"]) == (0, ENTRY)
    with pytest.raises(
        UndeclaredRead, match='^label "b" of the pod is read and not declared; declare it with Reads.pod_label$'
    ):
        access.labels["b"]
    with pytest.raises(UndeclaredRead, match='^annotations of the pod that begin with "" is read'):
        access.annotations.check_prefix("")
    with pytest.raises(UndeclaredRead, match=r"declare it with Reads.pod\(PodPart.OWNER\)$"):
        access.undeclared_part(PodPart.OWNER)
    with pytest.raises(UndeclaredRead, match=r"declare it with Reads.pods_by\(PodsBy.OWNER\)$"):
        access.pods[Reads().pods_by(PodsBy.OWNER)]
    topology = Reads().pods_by_topology(PodsBy.label("app"), "zone")
    with pytest.raises(UndeclaredRead, match=r'Reads.pods_by_topology\(PodsBy.label\("app"\), "zone"\)$'):
        access.topology(topology)


def test_each_declared_key_is_sent_and_no_other() -> None:
    chance = random.Random(1)

    def texts(least: int) -> list[str]:
        return ["".join(chance.choices("ab/", k=chance.randint(least, 3))) for _ in range(chance.randint(0, 8))]

    for _ in range(500):
        keys, prefixes, others = texts(1), texts(0)[:3], texts(0)
        reads = Reads()
        for key in keys:
            reads.pod_label(key)
        for prefix in prefixes:
            reads.pod_labels(prefix)
        places = Layout(reads).pod.labels
        sent = Layout(reads).message.pod.labels
        assert list(sent.keys) == sorted(set(sent.keys))
        for text in keys + others:
            if text.startswith(tuple(prefixes)):
                assert places[text] == ENTRY
            elif text in keys:
                assert sent.keys[places[text]] == text
            else:
                with pytest.raises(UndeclaredRead):
                    places[text]


def test_a_declaration_does_not_change_with_its_reads() -> None:
    reads = Reads()
    reads.node_label("a")
    verb = Verb.per_node().reads(reads)
    reads.node_label("b")
    keys = Declaration(Info("p", "1").filters(verb)).response.verbs[0].reads.node.labels.keys
    assert list(keys) == ["a"]
