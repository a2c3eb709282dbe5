from extender_policy._api.v1alpha1 import info_pb2 as _info_pb2
from extender_policy._api.v1alpha1 import node_pb2 as _node_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class SyncNodesRequest(_message.Message):
    __slots__ = ("table", "version", "view", "upserts", "removed", "complete")
    TABLE_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    VIEW_FIELD_NUMBER: _ClassVar[int]
    UPSERTS_FIELD_NUMBER: _ClassVar[int]
    REMOVED_FIELD_NUMBER: _ClassVar[int]
    COMPLETE_FIELD_NUMBER: _ClassVar[int]
    table: int
    version: int
    view: TableView
    upserts: _containers.RepeatedCompositeFieldContainer[TableEntry]
    removed: _containers.RepeatedScalarFieldContainer[int]
    complete: bool
    def __init__(self, table: _Optional[int] = ..., version: _Optional[int] = ..., view: _Optional[_Union[TableView, _Mapping]] = ..., upserts: _Optional[_Iterable[_Union[TableEntry, _Mapping]]] = ..., removed: _Optional[_Iterable[int]] = ..., complete: _Optional[bool] = ...) -> None: ...

class TableView(_message.Message):
    __slots__ = ("node_view", "annotation_prefixes", "usage", "reads")
    NODE_VIEW_FIELD_NUMBER: _ClassVar[int]
    ANNOTATION_PREFIXES_FIELD_NUMBER: _ClassVar[int]
    USAGE_FIELD_NUMBER: _ClassVar[int]
    READS_FIELD_NUMBER: _ClassVar[int]
    node_view: _info_pb2.NodeView
    annotation_prefixes: _containers.RepeatedScalarFieldContainer[str]
    usage: bool
    reads: _info_pb2.NodeReads
    def __init__(self, node_view: _Optional[_Union[_info_pb2.NodeView, str]] = ..., annotation_prefixes: _Optional[_Iterable[str]] = ..., usage: _Optional[bool] = ..., reads: _Optional[_Union[_info_pb2.NodeReads, _Mapping]] = ...) -> None: ...

class TableEntry(_message.Message):
    __slots__ = ("id", "row")
    ID_FIELD_NUMBER: _ClassVar[int]
    ROW_FIELD_NUMBER: _ClassVar[int]
    id: int
    row: _node_pb2.NodeRow
    def __init__(self, id: _Optional[int] = ..., row: _Optional[_Union[_node_pb2.NodeRow, _Mapping]] = ...) -> None: ...

class SyncNodesResponse(_message.Message):
    __slots__ = ("applied",)
    APPLIED_FIELD_NUMBER: _ClassVar[int]
    applied: int
    def __init__(self, applied: _Optional[int] = ...) -> None: ...
