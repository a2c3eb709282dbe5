"""Reads and checks a request: its pod, and its nodes, which come in the request or are those of a table."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from google.protobuf.message import DecodeError, Message
from grpc import StatusCode

from ._api.sdk import wire_pb2
from ._api.v1beta1 import info_pb2, pod_pb2, policy_pb2
from ._declaration import Terms
from ._errors import CallError, exhausted, invalid, missing
from ._layout import Access
from ._row import Row, RowContent, RowError, check_values, decoded
from ._tables import Tables
from .node import Nodes
from .pod import Pod

MAX_POD_BYTES = 16 << 20
"""A larger pod is not decoded: an entry of two bytes can become a structure of a hundred. The largest object that the
apiserver stores has 1.5 MB; its counts by topology may have some megabytes."""

_NOTHING = Row("", RowContent(b""))
"""Every node of a verb that reads nothing of nodes."""

MAX_NODES = 200_000
"""More nodes of a call are not read: an entry of two bytes becomes objects of a hundred, and one with a name of a
thousand."""


class Missed(Exception):
    """The nodes cannot be read here: a response, not an error."""

    def __init__(self, miss: policy_pb2.Miss) -> None:
        super().__init__()
        self.miss = miss


def required(message: Message, field: str) -> None:
    """A field that every request has."""
    if not message.HasField(field):
        raise missing(field)


def check_purpose(purpose: int, has_side_effects: bool) -> None:
    """An unknown purpose of a later version is not a decision either."""
    if purpose == policy_pb2.PURPOSE_UNSPECIFIED:
        raise invalid("call.purpose is missing")
    if has_side_effects and purpose != policy_pb2.PURPOSE_DECIDE:
        text = "this policy has side effects and only answers PURPOSE_DECIDE"
        raise CallError(StatusCode.FAILED_PRECONDITION, text, reason="PURPOSE")


class Question:
    """A request about nodes, or about the pod alone, that can be answered."""

    def __init__(
        self, request: wire_pb2.Question | wire_pb2.Preemption | wire_pb2.Change, terms: Terms, tables: Tables
    ) -> None:
        """Raises `CallError` for an invalid request, and `Missed` for nodes that cannot be read here."""
        check_purpose(request.call.purpose, terms.has_side_effects)
        # The pod is what is evaluated where there are no nodes.
        self.count = 1
        held = None
        if isinstance(request, wire_pb2.Change) and request.hook == info_pb2.VERB_BEFORE_FILTER:
            if request.HasField("nodes"):
                raise invalid("nodes is set; VERB_BEFORE_FILTER is about the pod alone")
        else:
            required(request, "nodes")
            self.count = request.nodes.count
            # Whether the request is valid does not depend on which tables exist here.
            held = _Held(request.nodes, terms, tables)
        if not request.pod:
            raise missing("pod")
        self.pod = placed_pod(b"".join(request.pod), terms, request.call)
        self.nodes = Nodes(() if held is None else held.rows(), terms.nodes)


class _Held:
    """The nodes of a request, read and checked."""

    def __init__(self, nodes: wire_pb2.Nodes, terms: Terms, tables: Tables) -> None:
        form = nodes.WhichOneof("form")
        self._miss: policy_pb2.Miss | None = None
        self._found: Sequence[Row | None] = ()
        if form == "rows":
            _check_count(nodes.count, len(nodes.rows.rows))
            self._found = _inline("rows", nodes.rows.rows, terms, tables)
        elif form == "table":
            self._read_table(nodes.count, nodes.table, terms, tables)
        else:
            self._miss = policy_pb2.MISS_FORM_UNKNOWN

    def _read_table(self, count: int, named: wire_pb2.NodeRef, terms: Terms, tables: Tables) -> None:
        _check_count(count, len(named.ids))
        ids = list(named.ids)
        zeros = ids.count(0)
        if zeros != len(named.rows):
            raise invalid(
                f"nodes.table.ids has {zeros} zeros and there are {len(named.rows)} rows; each zero stands for a row"
            )
        inline = iter(_inline("table", named.rows, terms, tables))
        table = tables.find(named.table)
        # The values of other rows could stand for other keys.
        if table is None or table.holds.rows_key != terms.rows_key:
            self._miss = policy_pb2.MISS_TABLE_UNKNOWN
            return
        current = table.current
        if current.version < named.at_least:
            self._miss = policy_pb2.MISS_TABLE_BEHIND
            return
        row = current.by_id.get
        self._found = [row(node) if node else next(inline) for node in ids] if zeros else list(map(row, ids))

    def rows(self) -> Sequence[Row]:
        """The rows in the order of the request."""
        if self._miss is not None:
            raise Missed(self._miss)
        if None in self._found:
            raise Missed(policy_pb2.MISS_TABLE_BEHIND)
        return self._found  # type: ignore[return-value]


def _check_count(count: int, rows: int) -> None:
    if not 0 < count == rows:
        raise invalid(
            f"nodes.count is {count} and there are {rows} rows; both count the nodes of the request, at least 1"
        )
    if count > MAX_NODES:
        raise exhausted(f"nodes.count is {count}; at most {MAX_NODES} nodes are read", "TOO_LARGE")


def _inline(form: str, encoded: Sequence[bytes], terms: Terms, tables: Tables) -> list[Row]:
    if terms.rows.is_nothing and not any(encoded):
        return [_NOTHING] * len(encoded)
    encoded = list(encoded)
    known = tables.last(terms.rows_key)
    rows = []
    try:
        for row in encoded:
            rows.append(known.get(row) or decoded(row, terms.rows))  # noqa: PERF401 - an error names the position
    except RowError as error:
        text = f"nodes.{form}.rows[{len(rows)}]{error}"
        if text.endswith("is missing"):
            text += "; what this policy declares to read has it"
        raise invalid(text) from error
    if form == "rows":
        tables.keep_last(terms.rows_key, dict(zip(encoded, rows, strict=True)))
    return rows


def placed_pod(encoded: bytes, terms: Terms, call: policy_pb2.Call) -> Pod:
    """The pod to be placed, as a policy may read it."""
    message = decoded_pod(encoded)
    _check_topologies(message, terms.pods)
    if not message.HasField("facts"):
        raise missing("pod.facts")
    check_pod("pod", message, terms)
    return Pod(message, terms.pods, call, is_pure=terms.is_pure)


def decoded_pod(encoded: bytes) -> pod_pb2.Pod:
    """The pod, if it is not too large."""
    if len(encoded) > MAX_POD_BYTES:
        raise exhausted(f"pod has {len(encoded)} bytes; at most {MAX_POD_BYTES} are decoded", "TOO_LARGE")
    try:
        return pod_pb2.Pod.FromString(encoded)
    except DecodeError as error:
        raise invalid(f"pod is not a Pod: {error}") from error


def check_pod(path: str, pod: pod_pb2.Pod, terms: Terms) -> None:
    """Checks that a pod has a value for each declared key. One without facts has none."""
    if not pod.HasField("facts"):
        return
    try:
        check_values("labels", pod.facts.labels, len(terms.pods.labels))
        check_values("annotations", pod.facts.annotations, len(terms.pods.annotations))
    except RowError as error:
        raise invalid(f"{path}{error}") from error


def _check_topologies(pod: pod_pb2.Pod, access: Access) -> None:
    """How many lists there are, and whether a domain can be looked up in them."""
    given, declared = len(pod.topology_counts), len(access.topologies)
    if given != declared:
        raise invalid(f"pod.topology_counts has {given} entries, and {declared} are declared")
    for position, (counts, sent) in enumerate(zip(pod.topology_counts, access.topologies.values(), strict=True)):
        values = [domain.value for domain in counts.domains]
        if any(value >= after for value, after in pairwise(values)):
            raise invalid(f"pod.topology_counts[{position}].domains is not in ascending order of value, each once")
        # Values ascend: if one is not empty, the last one is not.
        if values and values[-1] and not sent.topology:
            raise invalid(
                f"pod.topology_counts[{position}].domains has a value, and no topology key is declared for it"
            )
