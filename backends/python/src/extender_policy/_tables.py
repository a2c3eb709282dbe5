"""The tables of nodes that gateways keep here, so that calls name nodes by numbers.

A table belongs to its stream and is dropped with it; calls in progress keep the rows that they hold. It is found only
by its random name, so several gateways, and several selections of one gateway, never share one.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from google.protobuf.message import DecodeError

from ._api.sdk import wire_pb2
from ._api.v1beta1 import info_pb2
from ._declaration import RowParts
from ._errors import exhausted, invalid
from ._limits import KEY_BYTES, READ_COUNTS, READ_KEYS, READ_PARTS, TABLE_BYTES
from ._row import MAX_SHARED_BYTES, Row, RowContent, RowError, checked
from .reads import quoted, size

MAX_TABLES = 64
"""More tables than this are rejected: enough for 16 gateways with four selections each."""

MAX_BYTES = 1 << 30
"""Rows of more bytes than this, in all tables together, are rejected: 15,000 nodes with their JSON are about 0.2 GB."""

ROW_OVERHEAD_BYTES = 256
"""The memory of a row besides its name and its content: its place in the table, and the objects of Python."""

CONTENT_OVERHEAD_BYTES = 768
"""The memory of a content besides its bytes."""

DECODED = 8
"""A content is there encoded, and decoded once it is read: each byte of facts then takes this many, measured."""

DECODED_JSON = 3
"""The same for each byte of JSON, which is not decoded further."""

ROWS_AT_ONCE = 64
"""After this many rows other calls run: checking thousands of rows in one go would delay them."""


MAX_LAST_BYTES = 16 << 20
"""The memory of the rows of a call of which the next call may have the same; those of larger calls are not kept."""

MAX_LAST = 8
"""The declarations whose last rows are kept."""


class Holds:
    """What the rows of a table contain."""

    def __init__(self, first: wire_pb2.SyncNodes) -> None:
        """From the first message of a stream."""
        if not first.HasField("reads"):
            raise invalid("reads is missing; the first message says what the rows contain")
        _check_size(first.reads)
        self.rows_key = first.reads.SerializeToString(deterministic=True)
        """The declaration as bytes, to be compared with those of verbs."""
        self.parts = RowParts(first.reads)


def _check_size(reads: info_pb2.NodeReads) -> None:
    """The table keeps its declaration, and no gateway sends more than it accepts from a backend."""
    if len(reads.parts) > READ_PARTS:
        raise invalid(f"reads has {len(reads.parts)} parts; expected at most {READ_PARTS}")
    if len(reads.pod_counts) > READ_COUNTS:
        raise invalid(f"reads has {len(reads.pod_counts)} pod_counts; expected at most {READ_COUNTS}")
    keys = [*reads.labels.keys, *reads.labels.prefixes, *reads.annotations.keys, *reads.annotations.prefixes]
    longest = max(map(size, [*keys, *(count.label for count in reads.pod_counts)]), default=0)
    if longest > KEY_BYTES:
        raise invalid(f"reads has a key or prefix of {longest} bytes; expected at most {KEY_BYTES}")
    if len(keys) > READ_KEYS:
        raise invalid(f"reads has {len(keys)} keys and prefixes; expected at most {READ_KEYS}")


class Rows(NamedTuple):
    """All rows of one version. A call holds one: later changes are visible to later calls only."""

    version: int
    by_id: dict[int, Row]


class Table:
    """A table that changes while calls read it."""

    def __init__(self, holds: Holds) -> None:
        self.holds = holds
        self.current = Rows(0, {})
        """Replaced as a whole, so that a call sees all of a message or none of it."""


_NO_ROWS: Mapping[bytes, Row] = {}


class Tables:
    """The tables of one server."""

    def __init__(self, max_tables: int = MAX_TABLES, max_bytes: int = MAX_BYTES) -> None:
        self._by_name: dict[str, Table] = {}
        self._lock = threading.Lock()
        self._max_tables = max_tables
        self._max_bytes = max_bytes
        self._bytes = 0
        self._last: dict[bytes, Mapping[bytes, Row]] = {}
        self._is_stopped = False

    def find(self, name: str) -> Table | None:
        """The table of this name, if its stream is open."""
        return self._by_name.get(name)

    def last(self, rows_key: bytes) -> Mapping[bytes, Row]:
        """The rows of the last call that brought its nodes, for a declaration, by their bytes."""
        return self._last.get(rows_key, _NO_ROWS)

    def keep_last(self, rows_key: bytes, rows: Mapping[bytes, Row]) -> None:
        """The next call usually has the same rows: those of nodes that did not change."""
        size = DECODED * sum(map(len, rows)) + (CONTENT_OVERHEAD_BYTES + ROW_OVERHEAD_BYTES) * len(rows)
        with self._lock:
            if rows_key not in self._last and len(self._last) >= MAX_LAST:
                del self._last[next(iter(self._last))]
            self._last[rows_key] = rows if size <= MAX_LAST_BYTES else _NO_ROWS

    def sizes(self) -> list[int]:
        """How many nodes each table has."""
        with self._lock:
            return [len(table.current.by_id) for table in self._by_name.values()]

    def stop(self) -> None:
        """From now on tables stay when their streams end, for the calls that still arrive."""
        self._is_stopped = True

    def open(self, name: str, holds: Holds) -> Table:
        """A new table without rows, for a stream."""
        with self._lock:
            if name in self._by_name:
                raise invalid(f"table {quoted(name)} already has a stream; names of tables must be random")
            if len(self._by_name) >= self._max_tables:
                raise exhausted(f"this backend already holds {self._max_tables} tables, the maximum", "OVERLOADED")
            table = self._by_name[name] = Table(holds)
            return table

    def close(self, name: str) -> None:
        """The stream of this table has ended."""
        with self._lock:
            if not self._is_stopped:
                self._by_name.pop(name, None)

    def take(self, size: int) -> None:
        """Reserves this many bytes; a negative number returns them."""
        with self._lock:
            if size > 0 and self._bytes + size > self._max_bytes:
                text = f"the rows of all tables would need more than {self._max_bytes} bytes; more are refused"
                raise exhausted(text, "OVERLOADED")
            self._bytes += size

    @property
    def size(self) -> int:
        """The bytes that all rows take, as they are counted."""
        return self._bytes


class _Stored:
    """A content with the number of rows that have it."""

    __slots__ = ("content", "key", "rows", "size")

    def __init__(self, content: RowContent, key: bytes, json_size: int) -> None:
        # As it came it has the name, which equal contents do not share.
        content._encoded = key
        self.content = content
        self.key = key
        self.size = DECODED * (len(key) - json_size) + DECODED_JSON * json_size + CONTENT_OVERHEAD_BYTES
        self.rows = 0


class _Kept:
    """A row with what it shares, and the bytes that it takes besides."""

    __slots__ = ("row", "size", "stored")

    def __init__(self, name: str, stored: _Stored) -> None:
        self.row = Row(name, stored.content)
        self.stored = stored
        self.size = ROW_OVERHEAD_BYTES + len(name)


class Filling:
    """Applies the messages of a stream to its table, each whole or not at all.

    Used by one thread at a time. To be closed when the stream ends, however it ends.
    """

    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        self._table: Table | None = None
        self._name = ""
        self.version = 0
        """The version of the table."""
        self._is_complete = False
        self._shared: dict[bytes, _Stored] = {}
        """The contents that rows may share."""
        self._kept: dict[int, _Kept] = {}
        self._taken = 0

    def apply(self, encoded: bytes) -> Iterator[None]:
        """Applies a message in steps, between which other calls may run. It is visible after the last one."""
        message = self._checked(encoded)
        table = self._opened(message)
        upserts: dict[int, _Kept] = {}
        for position, entry in enumerate(message.upserts):
            node, kept = self._read(position, entry, table.holds.parts)
            # Of two upserts with one id the later counts.
            self._release(upserts.get(node))
            upserts[node] = kept
            if position % ROWS_AT_ONCE == ROWS_AT_ONCE - 1:
                yield
        for node, kept in upserts.items():
            self._release(self._kept.get(node))
            self._kept[node] = kept
        for node in message.removed:
            self._release(self._kept.pop(node, None))
        self.version = message.version
        self._is_complete |= message.complete
        table.current = Rows(message.version, {node: kept.row for node, kept in self._kept.items()})

    def close(self) -> None:
        """Drops the table with its rows."""
        if self._table is not None:
            self._tables.close(self._name)
            self._take(-self._taken)
            self._table = None

    def _checked(self, encoded: bytes) -> wire_pb2.SyncNodes:
        try:
            message = wire_pb2.SyncNodes.FromString(encoded)
        except DecodeError as error:
            raise invalid(f"the message cannot be decoded: {error}") from error
        if not message.table:
            raise invalid("table is missing; it is a random text, the same in all messages of a stream")
        if self._table is not None and message.table != self._name:
            raise invalid(f"table is no longer {quoted(self._name)}; it is the same in all messages of a stream")
        if not (len(message.table) <= TABLE_BYTES and message.table.isascii() and message.table.isprintable()):
            raise invalid(f"table is no text of at most {TABLE_BYTES} bytes of printable ASCII")
        if message.version <= self.version:
            raise invalid(f"version is {message.version} and was {self.version}; it grows with each message")
        if message.complete and self._is_complete:
            raise invalid("complete is set twice; set it in one message of a stream")
        if b"" in message.upserts:
            raise invalid("upserts has an empty entry; each entry has content")
        return message

    def _opened(self, message: wire_pb2.SyncNodes) -> Table:
        if self._table is None:
            self._table = self._tables.open(message.table, Holds(message))
            self._name = message.table
        return self._table

    def _read(self, position: int, encoded: bytes, parts: RowParts) -> tuple[int, _Kept]:
        try:
            entry = wire_pb2.TableEntry.FromString(encoded)
        except DecodeError as error:
            raise invalid(f"upserts[{position}] is not a TableEntry: {error}") from error
        for field, is_there in (("id", entry.id > 0), ("row", len(entry.row) > 0)):
            if not is_there:
                raise invalid(f"upserts[{position}].{field} is missing; every entry has an id of at least 1 and a row")
        try:
            row, content = checked(b"".join(entry.row), parts)
        except RowError as error:
            remedy = "; the table's reads has it" if str(error).endswith("is missing") else ""
            raise invalid(f"upserts[{position}].row{error}{remedy}") from error
        name = row.name
        row.ClearField("name")
        kept = _Kept(name, self._share(content, row.SerializeToString(deterministic=True), len(row.raw_json)))
        self._take(kept.size)
        return entry.id, kept

    def _share(self, content: RowContent, key: bytes, json_size: int) -> _Stored:
        """The content, or an equal one that is there."""
        stored = self._shared.get(key)
        if stored is None:
            stored = _Stored(content, key, json_size)
            self._take(stored.size)
            if len(key) <= MAX_SHARED_BYTES:
                self._shared[key] = stored
        stored.rows += 1
        return stored

    def _release(self, kept: _Kept | None) -> None:
        if kept is None:
            return
        size, stored = kept.size, kept.stored
        stored.rows -= 1
        if not stored.rows:
            size += stored.size
            self._shared.pop(stored.key, None)
        self._take(-size)

    def _take(self, size: int) -> None:
        self._tables.take(size)
        self._taken += size
