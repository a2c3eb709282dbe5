from extender_policy._api.v1alpha1 import resources_pb2 as _resources_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

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
    rows: _containers.RepeatedCompositeFieldContainer[NodeRow]
    def __init__(self, rows: _Optional[_Iterable[_Union[NodeRow, _Mapping]]] = ...) -> None: ...

class NodeRef(_message.Message):
    __slots__ = ("table", "at_least", "ids", "rows")
    TABLE_FIELD_NUMBER: _ClassVar[int]
    AT_LEAST_FIELD_NUMBER: _ClassVar[int]
    IDS_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    table: int
    at_least: int
    ids: _containers.RepeatedScalarFieldContainer[int]
    rows: _containers.RepeatedCompositeFieldContainer[NodeRow]
    def __init__(self, table: _Optional[int] = ..., at_least: _Optional[int] = ..., ids: _Optional[_Iterable[int]] = ..., rows: _Optional[_Iterable[_Union[NodeRow, _Mapping]]] = ...) -> None: ...

class NodeRow(_message.Message):
    __slots__ = ("name", "facts", "raw_json", "usage", "pod_counts")
    NAME_FIELD_NUMBER: _ClassVar[int]
    FACTS_FIELD_NUMBER: _ClassVar[int]
    RAW_JSON_FIELD_NUMBER: _ClassVar[int]
    USAGE_FIELD_NUMBER: _ClassVar[int]
    POD_COUNTS_FIELD_NUMBER: _ClassVar[int]
    name: str
    facts: NodeFacts
    raw_json: bytes
    usage: NodeUsage
    pod_counts: _containers.RepeatedCompositeFieldContainer[PodCounts]
    def __init__(self, name: _Optional[str] = ..., facts: _Optional[_Union[NodeFacts, _Mapping]] = ..., raw_json: _Optional[bytes] = ..., usage: _Optional[_Union[NodeUsage, _Mapping]] = ..., pod_counts: _Optional[_Iterable[_Union[PodCounts, _Mapping]]] = ...) -> None: ...

class PodCounts(_message.Message):
    __slots__ = ("counts", "omitted_pods")
    COUNTS_FIELD_NUMBER: _ClassVar[int]
    OMITTED_PODS_FIELD_NUMBER: _ClassVar[int]
    counts: _containers.RepeatedCompositeFieldContainer[PodCount]
    omitted_pods: int
    def __init__(self, counts: _Optional[_Iterable[_Union[PodCount, _Mapping]]] = ..., omitted_pods: _Optional[int] = ...) -> None: ...

class PodCount(_message.Message):
    __slots__ = ("namespace", "value", "pods", "terminating", "requested")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    PODS_FIELD_NUMBER: _ClassVar[int]
    TERMINATING_FIELD_NUMBER: _ClassVar[int]
    REQUESTED_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    value: str
    pods: int
    terminating: int
    requested: _resources_pb2.Resources
    def __init__(self, namespace: _Optional[str] = ..., value: _Optional[str] = ..., pods: _Optional[int] = ..., terminating: _Optional[int] = ..., requested: _Optional[_Union[_resources_pb2.Resources, _Mapping]] = ...) -> None: ...

class NodeUsage(_message.Message):
    __slots__ = ("requested", "nonzero")
    REQUESTED_FIELD_NUMBER: _ClassVar[int]
    NONZERO_FIELD_NUMBER: _ClassVar[int]
    requested: _resources_pb2.Resources
    nonzero: _resources_pb2.NonZero
    def __init__(self, requested: _Optional[_Union[_resources_pb2.Resources, _Mapping]] = ..., nonzero: _Optional[_Union[_resources_pb2.NonZero, _Mapping]] = ...) -> None: ...

class NodeFacts(_message.Message):
    __slots__ = ("labels", "annotations", "taints", "unschedulable", "conditions", "capacity", "allocatable", "label_values", "annotation_values", "absent_labels", "absent_annotations")
    class LabelsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    class AnnotationsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    class ConditionsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    LABELS_FIELD_NUMBER: _ClassVar[int]
    ANNOTATIONS_FIELD_NUMBER: _ClassVar[int]
    TAINTS_FIELD_NUMBER: _ClassVar[int]
    UNSCHEDULABLE_FIELD_NUMBER: _ClassVar[int]
    CONDITIONS_FIELD_NUMBER: _ClassVar[int]
    CAPACITY_FIELD_NUMBER: _ClassVar[int]
    ALLOCATABLE_FIELD_NUMBER: _ClassVar[int]
    LABEL_VALUES_FIELD_NUMBER: _ClassVar[int]
    ANNOTATION_VALUES_FIELD_NUMBER: _ClassVar[int]
    ABSENT_LABELS_FIELD_NUMBER: _ClassVar[int]
    ABSENT_ANNOTATIONS_FIELD_NUMBER: _ClassVar[int]
    labels: _containers.ScalarMap[str, str]
    annotations: _containers.ScalarMap[str, str]
    taints: _containers.RepeatedCompositeFieldContainer[Taint]
    unschedulable: bool
    conditions: _containers.ScalarMap[str, str]
    capacity: _resources_pb2.Resources
    allocatable: _resources_pb2.Resources
    label_values: _containers.RepeatedScalarFieldContainer[str]
    annotation_values: _containers.RepeatedScalarFieldContainer[str]
    absent_labels: _containers.RepeatedScalarFieldContainer[int]
    absent_annotations: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, labels: _Optional[_Mapping[str, str]] = ..., annotations: _Optional[_Mapping[str, str]] = ..., taints: _Optional[_Iterable[_Union[Taint, _Mapping]]] = ..., unschedulable: _Optional[bool] = ..., conditions: _Optional[_Mapping[str, str]] = ..., capacity: _Optional[_Union[_resources_pb2.Resources, _Mapping]] = ..., allocatable: _Optional[_Union[_resources_pb2.Resources, _Mapping]] = ..., label_values: _Optional[_Iterable[str]] = ..., annotation_values: _Optional[_Iterable[str]] = ..., absent_labels: _Optional[_Iterable[int]] = ..., absent_annotations: _Optional[_Iterable[int]] = ...) -> None: ...

class Taint(_message.Message):
    __slots__ = ("key", "value", "effect")
    KEY_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    EFFECT_FIELD_NUMBER: _ClassVar[int]
    key: str
    value: str
    effect: str
    def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ..., effect: _Optional[str] = ...) -> None: ...
