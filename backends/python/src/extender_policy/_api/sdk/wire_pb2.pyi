from extender_policy._api.v1alpha1 import policy_pb2 as _policy_pb2
from extender_policy._api.v1alpha1 import table_pb2 as _table_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Question(_message.Message):
    __slots__ = ("call", "pod", "nodes", "want_scores")
    CALL_FIELD_NUMBER: _ClassVar[int]
    POD_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    WANT_SCORES_FIELD_NUMBER: _ClassVar[int]
    call: _policy_pb2.Call
    pod: _containers.RepeatedScalarFieldContainer[bytes]
    nodes: Nodes
    want_scores: bool
    def __init__(self, call: _Optional[_Union[_policy_pb2.Call, _Mapping]] = ..., pod: _Optional[_Iterable[bytes]] = ..., nodes: _Optional[_Union[Nodes, _Mapping]] = ..., want_scores: _Optional[bool] = ...) -> None: ...

class PodQuestion(_message.Message):
    __slots__ = ("call", "pod")
    CALL_FIELD_NUMBER: _ClassVar[int]
    POD_FIELD_NUMBER: _ClassVar[int]
    call: _policy_pb2.Call
    pod: _containers.RepeatedScalarFieldContainer[bytes]
    def __init__(self, call: _Optional[_Union[_policy_pb2.Call, _Mapping]] = ..., pod: _Optional[_Iterable[bytes]] = ...) -> None: ...

class Preemption(_message.Message):
    __slots__ = ("call", "pod", "nodes", "candidates")
    CALL_FIELD_NUMBER: _ClassVar[int]
    POD_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    CANDIDATES_FIELD_NUMBER: _ClassVar[int]
    call: _policy_pb2.Call
    pod: _containers.RepeatedScalarFieldContainer[bytes]
    nodes: Nodes
    candidates: _containers.RepeatedScalarFieldContainer[bytes]
    def __init__(self, call: _Optional[_Union[_policy_pb2.Call, _Mapping]] = ..., pod: _Optional[_Iterable[bytes]] = ..., nodes: _Optional[_Union[Nodes, _Mapping]] = ..., candidates: _Optional[_Iterable[bytes]] = ...) -> None: ...

class Binding(_message.Message):
    __slots__ = ("call", "namespace", "name", "uid", "node", "pod")
    CALL_FIELD_NUMBER: _ClassVar[int]
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    UID_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    POD_FIELD_NUMBER: _ClassVar[int]
    call: _policy_pb2.Call
    namespace: str
    name: str
    uid: str
    node: str
    pod: _containers.RepeatedScalarFieldContainer[bytes]
    def __init__(self, call: _Optional[_Union[_policy_pb2.Call, _Mapping]] = ..., namespace: _Optional[str] = ..., name: _Optional[str] = ..., uid: _Optional[str] = ..., node: _Optional[str] = ..., pod: _Optional[_Iterable[bytes]] = ...) -> None: ...

class Nodes(_message.Message):
    __slots__ = ("count", "rows", "table")
    COUNT_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    TABLE_FIELD_NUMBER: _ClassVar[int]
    count: int
    rows: NodeRows
    table: NodeRef
    def __init__(self, count: _Optional[int] = ..., rows: _Optional[_Union[NodeRows, _Mapping]] = ..., table: _Optional[_Union[NodeRef, _Mapping]] = ...) -> None: ...

class NodeRows(_message.Message):
    __slots__ = ("rows",)
    ROWS_FIELD_NUMBER: _ClassVar[int]
    rows: _containers.RepeatedScalarFieldContainer[bytes]
    def __init__(self, rows: _Optional[_Iterable[bytes]] = ...) -> None: ...

class NodeRef(_message.Message):
    __slots__ = ("table", "at_least", "ids", "rows")
    TABLE_FIELD_NUMBER: _ClassVar[int]
    AT_LEAST_FIELD_NUMBER: _ClassVar[int]
    IDS_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    table: int
    at_least: int
    ids: _containers.RepeatedScalarFieldContainer[int]
    rows: _containers.RepeatedScalarFieldContainer[bytes]
    def __init__(self, table: _Optional[int] = ..., at_least: _Optional[int] = ..., ids: _Optional[_Iterable[int]] = ..., rows: _Optional[_Iterable[bytes]] = ...) -> None: ...

class SyncNodes(_message.Message):
    __slots__ = ("table", "version", "view", "upserts", "removed", "complete")
    TABLE_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    VIEW_FIELD_NUMBER: _ClassVar[int]
    UPSERTS_FIELD_NUMBER: _ClassVar[int]
    REMOVED_FIELD_NUMBER: _ClassVar[int]
    COMPLETE_FIELD_NUMBER: _ClassVar[int]
    table: int
    version: int
    view: _table_pb2.TableView
    upserts: _containers.RepeatedScalarFieldContainer[bytes]
    removed: _containers.RepeatedScalarFieldContainer[int]
    complete: bool
    def __init__(self, table: _Optional[int] = ..., version: _Optional[int] = ..., view: _Optional[_Union[_table_pb2.TableView, _Mapping]] = ..., upserts: _Optional[_Iterable[bytes]] = ..., removed: _Optional[_Iterable[int]] = ..., complete: _Optional[bool] = ...) -> None: ...

class TableEntry(_message.Message):
    __slots__ = ("id", "row")
    ID_FIELD_NUMBER: _ClassVar[int]
    ROW_FIELD_NUMBER: _ClassVar[int]
    id: int
    row: _containers.RepeatedScalarFieldContainer[bytes]
    def __init__(self, id: _Optional[int] = ..., row: _Optional[_Iterable[bytes]] = ...) -> None: ...
