from extender_policy._api.v1alpha1 import resources_pb2 as _resources_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Pod(_message.Message):
    __slots__ = ("identity", "facts", "raw_json", "topology_counts")
    IDENTITY_FIELD_NUMBER: _ClassVar[int]
    FACTS_FIELD_NUMBER: _ClassVar[int]
    RAW_JSON_FIELD_NUMBER: _ClassVar[int]
    TOPOLOGY_COUNTS_FIELD_NUMBER: _ClassVar[int]
    identity: PodIdentity
    facts: PodFacts
    raw_json: bytes
    topology_counts: _containers.RepeatedCompositeFieldContainer[TopologyCounts]
    def __init__(self, identity: _Optional[_Union[PodIdentity, _Mapping]] = ..., facts: _Optional[_Union[PodFacts, _Mapping]] = ..., raw_json: _Optional[bytes] = ..., topology_counts: _Optional[_Iterable[_Union[TopologyCounts, _Mapping]]] = ...) -> None: ...

class TopologyCounts(_message.Message):
    __slots__ = ("domains", "omitted_pods")
    DOMAINS_FIELD_NUMBER: _ClassVar[int]
    OMITTED_PODS_FIELD_NUMBER: _ClassVar[int]
    domains: _containers.RepeatedCompositeFieldContainer[DomainCount]
    omitted_pods: int
    def __init__(self, domains: _Optional[_Iterable[_Union[DomainCount, _Mapping]]] = ..., omitted_pods: _Optional[int] = ...) -> None: ...

class DomainCount(_message.Message):
    __slots__ = ("value", "pods", "terminating", "requested")
    VALUE_FIELD_NUMBER: _ClassVar[int]
    PODS_FIELD_NUMBER: _ClassVar[int]
    TERMINATING_FIELD_NUMBER: _ClassVar[int]
    REQUESTED_FIELD_NUMBER: _ClassVar[int]
    value: str
    pods: int
    terminating: int
    requested: _resources_pb2.Resources
    def __init__(self, value: _Optional[str] = ..., pods: _Optional[int] = ..., terminating: _Optional[int] = ..., requested: _Optional[_Union[_resources_pb2.Resources, _Mapping]] = ...) -> None: ...

class PodIdentity(_message.Message):
    __slots__ = ("name", "uid", "claims")
    NAME_FIELD_NUMBER: _ClassVar[int]
    UID_FIELD_NUMBER: _ClassVar[int]
    CLAIMS_FIELD_NUMBER: _ClassVar[int]
    name: str
    uid: str
    claims: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, name: _Optional[str] = ..., uid: _Optional[str] = ..., claims: _Optional[_Iterable[str]] = ...) -> None: ...

class PodFacts(_message.Message):
    __slots__ = ("namespace", "labels", "annotations", "owner", "priority", "priority_class_name", "requests", "tolerations", "node_selector", "volumes", "scheduler_name", "node_affinity", "nonzero_requests", "label_values", "annotation_values", "absent_labels", "absent_annotations")
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
    class NodeSelectorEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    ANNOTATIONS_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_CLASS_NAME_FIELD_NUMBER: _ClassVar[int]
    REQUESTS_FIELD_NUMBER: _ClassVar[int]
    TOLERATIONS_FIELD_NUMBER: _ClassVar[int]
    NODE_SELECTOR_FIELD_NUMBER: _ClassVar[int]
    VOLUMES_FIELD_NUMBER: _ClassVar[int]
    SCHEDULER_NAME_FIELD_NUMBER: _ClassVar[int]
    NODE_AFFINITY_FIELD_NUMBER: _ClassVar[int]
    NONZERO_REQUESTS_FIELD_NUMBER: _ClassVar[int]
    LABEL_VALUES_FIELD_NUMBER: _ClassVar[int]
    ANNOTATION_VALUES_FIELD_NUMBER: _ClassVar[int]
    ABSENT_LABELS_FIELD_NUMBER: _ClassVar[int]
    ABSENT_ANNOTATIONS_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    labels: _containers.ScalarMap[str, str]
    annotations: _containers.ScalarMap[str, str]
    owner: OwnerReference
    priority: int
    priority_class_name: str
    requests: _resources_pb2.Resources
    tolerations: _containers.RepeatedCompositeFieldContainer[Toleration]
    node_selector: _containers.ScalarMap[str, str]
    volumes: _containers.RepeatedCompositeFieldContainer[Volume]
    scheduler_name: str
    node_affinity: NodeAffinity
    nonzero_requests: _resources_pb2.NonZero
    label_values: _containers.RepeatedScalarFieldContainer[str]
    annotation_values: _containers.RepeatedScalarFieldContainer[str]
    absent_labels: _containers.RepeatedScalarFieldContainer[int]
    absent_annotations: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, namespace: _Optional[str] = ..., labels: _Optional[_Mapping[str, str]] = ..., annotations: _Optional[_Mapping[str, str]] = ..., owner: _Optional[_Union[OwnerReference, _Mapping]] = ..., priority: _Optional[int] = ..., priority_class_name: _Optional[str] = ..., requests: _Optional[_Union[_resources_pb2.Resources, _Mapping]] = ..., tolerations: _Optional[_Iterable[_Union[Toleration, _Mapping]]] = ..., node_selector: _Optional[_Mapping[str, str]] = ..., volumes: _Optional[_Iterable[_Union[Volume, _Mapping]]] = ..., scheduler_name: _Optional[str] = ..., node_affinity: _Optional[_Union[NodeAffinity, _Mapping]] = ..., nonzero_requests: _Optional[_Union[_resources_pb2.NonZero, _Mapping]] = ..., label_values: _Optional[_Iterable[str]] = ..., annotation_values: _Optional[_Iterable[str]] = ..., absent_labels: _Optional[_Iterable[int]] = ..., absent_annotations: _Optional[_Iterable[int]] = ...) -> None: ...

class NodeAffinity(_message.Message):
    __slots__ = ("required", "preferred")
    REQUIRED_FIELD_NUMBER: _ClassVar[int]
    PREFERRED_FIELD_NUMBER: _ClassVar[int]
    required: NodeSelector
    preferred: _containers.RepeatedCompositeFieldContainer[PreferredSchedulingTerm]
    def __init__(self, required: _Optional[_Union[NodeSelector, _Mapping]] = ..., preferred: _Optional[_Iterable[_Union[PreferredSchedulingTerm, _Mapping]]] = ...) -> None: ...

class NodeSelector(_message.Message):
    __slots__ = ("terms",)
    TERMS_FIELD_NUMBER: _ClassVar[int]
    terms: _containers.RepeatedCompositeFieldContainer[NodeSelectorTerm]
    def __init__(self, terms: _Optional[_Iterable[_Union[NodeSelectorTerm, _Mapping]]] = ...) -> None: ...

class NodeSelectorTerm(_message.Message):
    __slots__ = ("match_expressions", "match_fields")
    MATCH_EXPRESSIONS_FIELD_NUMBER: _ClassVar[int]
    MATCH_FIELDS_FIELD_NUMBER: _ClassVar[int]
    match_expressions: _containers.RepeatedCompositeFieldContainer[NodeSelectorRequirement]
    match_fields: _containers.RepeatedCompositeFieldContainer[NodeSelectorRequirement]
    def __init__(self, match_expressions: _Optional[_Iterable[_Union[NodeSelectorRequirement, _Mapping]]] = ..., match_fields: _Optional[_Iterable[_Union[NodeSelectorRequirement, _Mapping]]] = ...) -> None: ...

class NodeSelectorRequirement(_message.Message):
    __slots__ = ("key", "operator", "values")
    KEY_FIELD_NUMBER: _ClassVar[int]
    OPERATOR_FIELD_NUMBER: _ClassVar[int]
    VALUES_FIELD_NUMBER: _ClassVar[int]
    key: str
    operator: str
    values: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, key: _Optional[str] = ..., operator: _Optional[str] = ..., values: _Optional[_Iterable[str]] = ...) -> None: ...

class PreferredSchedulingTerm(_message.Message):
    __slots__ = ("weight", "preference")
    WEIGHT_FIELD_NUMBER: _ClassVar[int]
    PREFERENCE_FIELD_NUMBER: _ClassVar[int]
    weight: int
    preference: NodeSelectorTerm
    def __init__(self, weight: _Optional[int] = ..., preference: _Optional[_Union[NodeSelectorTerm, _Mapping]] = ...) -> None: ...

class OwnerReference(_message.Message):
    __slots__ = ("api_version", "kind", "name", "uid")
    API_VERSION_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    UID_FIELD_NUMBER: _ClassVar[int]
    api_version: str
    kind: str
    name: str
    uid: str
    def __init__(self, api_version: _Optional[str] = ..., kind: _Optional[str] = ..., name: _Optional[str] = ..., uid: _Optional[str] = ...) -> None: ...

class Toleration(_message.Message):
    __slots__ = ("key", "operator", "value", "effect", "toleration_seconds")
    KEY_FIELD_NUMBER: _ClassVar[int]
    OPERATOR_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    EFFECT_FIELD_NUMBER: _ClassVar[int]
    TOLERATION_SECONDS_FIELD_NUMBER: _ClassVar[int]
    key: str
    operator: str
    value: str
    effect: str
    toleration_seconds: int
    def __init__(self, key: _Optional[str] = ..., operator: _Optional[str] = ..., value: _Optional[str] = ..., effect: _Optional[str] = ..., toleration_seconds: _Optional[int] = ...) -> None: ...

class Volume(_message.Message):
    __slots__ = ("name", "claim")
    NAME_FIELD_NUMBER: _ClassVar[int]
    CLAIM_FIELD_NUMBER: _ClassVar[int]
    name: str
    claim: str
    def __init__(self, name: _Optional[str] = ..., claim: _Optional[str] = ...) -> None: ...
