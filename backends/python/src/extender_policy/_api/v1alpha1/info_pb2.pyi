from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ChangedPart(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    CHANGED_PART_UNSPECIFIED: _ClassVar[ChangedPart]
    CHANGED_PART_POD_LABELS: _ClassVar[ChangedPart]
    CHANGED_PART_POD_NODE_SELECTOR: _ClassVar[ChangedPart]
    CHANGED_PART_POD_NODE_AFFINITY: _ClassVar[ChangedPart]
    CHANGED_PART_POD_TOLERATIONS: _ClassVar[ChangedPart]
    CHANGED_PART_POD_REQUESTS: _ClassVar[ChangedPart]
    CHANGED_PART_NODE_LABELS: _ClassVar[ChangedPart]
    CHANGED_PART_NODE_TAINTS: _ClassVar[ChangedPart]
    CHANGED_PART_NODE_ALLOCATABLE: _ClassVar[ChangedPart]
    CHANGED_PART_NODE_USAGE: _ClassVar[ChangedPart]

class PodCountBy(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    POD_COUNT_BY_UNSPECIFIED: _ClassVar[PodCountBy]
    POD_COUNT_BY_OWNER: _ClassVar[PodCountBy]
    POD_COUNT_BY_NAMESPACE: _ClassVar[PodCountBy]
    POD_COUNT_BY_LABEL: _ClassVar[PodCountBy]
    POD_COUNT_BY_PRIORITY_CLASS_NAME: _ClassVar[PodCountBy]

class PodPart(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    POD_PART_UNSPECIFIED: _ClassVar[PodPart]
    POD_PART_IDENTITY: _ClassVar[PodPart]
    POD_PART_NAMESPACE: _ClassVar[PodPart]
    POD_PART_OWNER: _ClassVar[PodPart]
    POD_PART_PRIORITY: _ClassVar[PodPart]
    POD_PART_PRIORITY_CLASS_NAME: _ClassVar[PodPart]
    POD_PART_REQUESTS: _ClassVar[PodPart]
    POD_PART_NONZERO_REQUESTS: _ClassVar[PodPart]
    POD_PART_TOLERATIONS: _ClassVar[PodPart]
    POD_PART_NODE_SELECTOR: _ClassVar[PodPart]
    POD_PART_NODE_AFFINITY: _ClassVar[PodPart]
    POD_PART_VOLUMES: _ClassVar[PodPart]
    POD_PART_SCHEDULER_NAME: _ClassVar[PodPart]

class NodePart(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    NODE_PART_UNSPECIFIED: _ClassVar[NodePart]
    NODE_PART_TAINTS: _ClassVar[NodePart]
    NODE_PART_UNSCHEDULABLE: _ClassVar[NodePart]
    NODE_PART_CONDITIONS: _ClassVar[NodePart]
    NODE_PART_CAPACITY: _ClassVar[NodePart]
    NODE_PART_ALLOCATABLE: _ClassVar[NodePart]
    NODE_PART_NAME: _ClassVar[NodePart]

class Verb(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    VERB_UNSPECIFIED: _ClassVar[Verb]
    VERB_FILTER: _ClassVar[Verb]
    VERB_SCORE: _ClassVar[Verb]
    VERB_PREEMPT: _ClassVar[Verb]
    VERB_BIND: _ClassVar[Verb]
    VERB_BEFORE_FILTER: _ClassVar[Verb]
    VERB_BEFORE_FILTER_NODES: _ClassVar[Verb]
    VERB_BEFORE_SCORE: _ClassVar[Verb]

class NodeView(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    NODE_VIEW_UNSPECIFIED: _ClassVar[NodeView]
    NODE_VIEW_NAME: _ClassVar[NodeView]
    NODE_VIEW_FACTS: _ClassVar[NodeView]
    NODE_VIEW_FACTS_AND_RAW: _ClassVar[NodeView]

class Scope(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    SCOPE_UNSPECIFIED: _ClassVar[Scope]
    SCOPE_NODE: _ClassVar[Scope]
    SCOPE_WHOLE_SET: _ClassVar[Scope]

class Normalization(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    NORMALIZATION_UNSPECIFIED: _ClassVar[Normalization]
    NORMALIZATION_NONE: _ClassVar[Normalization]
    NORMALIZATION_RANGE: _ClassVar[Normalization]
    NORMALIZATION_MAX: _ClassVar[Normalization]
    NORMALIZATION_MIN_MAX: _ClassVar[Normalization]
CHANGED_PART_UNSPECIFIED: ChangedPart
CHANGED_PART_POD_LABELS: ChangedPart
CHANGED_PART_POD_NODE_SELECTOR: ChangedPart
CHANGED_PART_POD_NODE_AFFINITY: ChangedPart
CHANGED_PART_POD_TOLERATIONS: ChangedPart
CHANGED_PART_POD_REQUESTS: ChangedPart
CHANGED_PART_NODE_LABELS: ChangedPart
CHANGED_PART_NODE_TAINTS: ChangedPart
CHANGED_PART_NODE_ALLOCATABLE: ChangedPart
CHANGED_PART_NODE_USAGE: ChangedPart
POD_COUNT_BY_UNSPECIFIED: PodCountBy
POD_COUNT_BY_OWNER: PodCountBy
POD_COUNT_BY_NAMESPACE: PodCountBy
POD_COUNT_BY_LABEL: PodCountBy
POD_COUNT_BY_PRIORITY_CLASS_NAME: PodCountBy
POD_PART_UNSPECIFIED: PodPart
POD_PART_IDENTITY: PodPart
POD_PART_NAMESPACE: PodPart
POD_PART_OWNER: PodPart
POD_PART_PRIORITY: PodPart
POD_PART_PRIORITY_CLASS_NAME: PodPart
POD_PART_REQUESTS: PodPart
POD_PART_NONZERO_REQUESTS: PodPart
POD_PART_TOLERATIONS: PodPart
POD_PART_NODE_SELECTOR: PodPart
POD_PART_NODE_AFFINITY: PodPart
POD_PART_VOLUMES: PodPart
POD_PART_SCHEDULER_NAME: PodPart
NODE_PART_UNSPECIFIED: NodePart
NODE_PART_TAINTS: NodePart
NODE_PART_UNSCHEDULABLE: NodePart
NODE_PART_CONDITIONS: NodePart
NODE_PART_CAPACITY: NodePart
NODE_PART_ALLOCATABLE: NodePart
NODE_PART_NAME: NodePart
VERB_UNSPECIFIED: Verb
VERB_FILTER: Verb
VERB_SCORE: Verb
VERB_PREEMPT: Verb
VERB_BIND: Verb
VERB_BEFORE_FILTER: Verb
VERB_BEFORE_FILTER_NODES: Verb
VERB_BEFORE_SCORE: Verb
NODE_VIEW_UNSPECIFIED: NodeView
NODE_VIEW_NAME: NodeView
NODE_VIEW_FACTS: NodeView
NODE_VIEW_FACTS_AND_RAW: NodeView
SCOPE_UNSPECIFIED: Scope
SCOPE_NODE: Scope
SCOPE_WHOLE_SET: Scope
NORMALIZATION_UNSPECIFIED: Normalization
NORMALIZATION_NONE: Normalization
NORMALIZATION_RANGE: Normalization
NORMALIZATION_MAX: Normalization
NORMALIZATION_MIN_MAX: Normalization

class GetInfoRequest(_message.Message):
    __slots__ = ("gateway_version", "api_versions", "backend", "args")
    GATEWAY_VERSION_FIELD_NUMBER: _ClassVar[int]
    API_VERSIONS_FIELD_NUMBER: _ClassVar[int]
    BACKEND_FIELD_NUMBER: _ClassVar[int]
    ARGS_FIELD_NUMBER: _ClassVar[int]
    gateway_version: str
    api_versions: _containers.RepeatedScalarFieldContainer[str]
    backend: str
    args: bytes
    def __init__(self, gateway_version: _Optional[str] = ..., api_versions: _Optional[_Iterable[str]] = ..., backend: _Optional[str] = ..., args: _Optional[bytes] = ...) -> None: ...

class GetInfoResponse(_message.Message):
    __slots__ = ("name", "version", "revision", "api_version", "requires", "services", "verbs", "pod_raw", "annotation_prefixes", "max_request_bytes", "introspection", "controllers", "rejected_configuration")
    NAME_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    API_VERSION_FIELD_NUMBER: _ClassVar[int]
    REQUIRES_FIELD_NUMBER: _ClassVar[int]
    SERVICES_FIELD_NUMBER: _ClassVar[int]
    VERBS_FIELD_NUMBER: _ClassVar[int]
    POD_RAW_FIELD_NUMBER: _ClassVar[int]
    ANNOTATION_PREFIXES_FIELD_NUMBER: _ClassVar[int]
    MAX_REQUEST_BYTES_FIELD_NUMBER: _ClassVar[int]
    INTROSPECTION_FIELD_NUMBER: _ClassVar[int]
    CONTROLLERS_FIELD_NUMBER: _ClassVar[int]
    REJECTED_CONFIGURATION_FIELD_NUMBER: _ClassVar[int]
    name: str
    version: str
    revision: str
    api_version: str
    requires: _containers.RepeatedScalarFieldContainer[str]
    services: _containers.RepeatedScalarFieldContainer[str]
    verbs: _containers.RepeatedCompositeFieldContainer[VerbInfo]
    pod_raw: bool
    annotation_prefixes: _containers.RepeatedScalarFieldContainer[str]
    max_request_bytes: int
    introspection: _containers.RepeatedCompositeFieldContainer[IntrospectionPath]
    controllers: Controllers
    rejected_configuration: str
    def __init__(self, name: _Optional[str] = ..., version: _Optional[str] = ..., revision: _Optional[str] = ..., api_version: _Optional[str] = ..., requires: _Optional[_Iterable[str]] = ..., services: _Optional[_Iterable[str]] = ..., verbs: _Optional[_Iterable[_Union[VerbInfo, _Mapping]]] = ..., pod_raw: _Optional[bool] = ..., annotation_prefixes: _Optional[_Iterable[str]] = ..., max_request_bytes: _Optional[int] = ..., introspection: _Optional[_Iterable[_Union[IntrospectionPath, _Mapping]]] = ..., controllers: _Optional[_Union[Controllers, _Mapping]] = ..., rejected_configuration: _Optional[str] = ...) -> None: ...

class IntrospectionPath(_message.Message):
    __slots__ = ("path", "description")
    PATH_FIELD_NUMBER: _ClassVar[int]
    DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
    path: str
    description: str
    def __init__(self, path: _Optional[str] = ..., description: _Optional[str] = ...) -> None: ...

class Controllers(_message.Message):
    __slots__ = ("names", "lease", "identity", "leader")
    NAMES_FIELD_NUMBER: _ClassVar[int]
    LEASE_FIELD_NUMBER: _ClassVar[int]
    IDENTITY_FIELD_NUMBER: _ClassVar[int]
    LEADER_FIELD_NUMBER: _ClassVar[int]
    names: _containers.RepeatedScalarFieldContainer[str]
    lease: str
    identity: str
    leader: str
    def __init__(self, names: _Optional[_Iterable[str]] = ..., lease: _Optional[str] = ..., identity: _Optional[str] = ..., leader: _Optional[str] = ...) -> None: ...

class VerbInfo(_message.Message):
    __slots__ = ("verb", "node_view", "scope", "side_effects", "pure", "score_min", "score_max", "normalization", "reversed", "usage", "reads", "changes")
    VERB_FIELD_NUMBER: _ClassVar[int]
    NODE_VIEW_FIELD_NUMBER: _ClassVar[int]
    SCOPE_FIELD_NUMBER: _ClassVar[int]
    SIDE_EFFECTS_FIELD_NUMBER: _ClassVar[int]
    PURE_FIELD_NUMBER: _ClassVar[int]
    SCORE_MIN_FIELD_NUMBER: _ClassVar[int]
    SCORE_MAX_FIELD_NUMBER: _ClassVar[int]
    NORMALIZATION_FIELD_NUMBER: _ClassVar[int]
    REVERSED_FIELD_NUMBER: _ClassVar[int]
    USAGE_FIELD_NUMBER: _ClassVar[int]
    READS_FIELD_NUMBER: _ClassVar[int]
    CHANGES_FIELD_NUMBER: _ClassVar[int]
    verb: Verb
    node_view: NodeView
    scope: Scope
    side_effects: bool
    pure: bool
    score_min: int
    score_max: int
    normalization: Normalization
    reversed: bool
    usage: bool
    reads: Reads
    changes: _containers.RepeatedScalarFieldContainer[ChangedPart]
    def __init__(self, verb: _Optional[_Union[Verb, str]] = ..., node_view: _Optional[_Union[NodeView, str]] = ..., scope: _Optional[_Union[Scope, str]] = ..., side_effects: _Optional[bool] = ..., pure: _Optional[bool] = ..., score_min: _Optional[int] = ..., score_max: _Optional[int] = ..., normalization: _Optional[_Union[Normalization, str]] = ..., reversed: _Optional[bool] = ..., usage: _Optional[bool] = ..., reads: _Optional[_Union[Reads, _Mapping]] = ..., changes: _Optional[_Iterable[_Union[ChangedPart, str]]] = ...) -> None: ...

class Reads(_message.Message):
    __slots__ = ("id", "pod", "node")
    ID_FIELD_NUMBER: _ClassVar[int]
    POD_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    id: int
    pod: PodReads
    node: NodeReads
    def __init__(self, id: _Optional[int] = ..., pod: _Optional[_Union[PodReads, _Mapping]] = ..., node: _Optional[_Union[NodeReads, _Mapping]] = ...) -> None: ...

class PodReads(_message.Message):
    __slots__ = ("parts", "labels", "annotations", "topology_counts")
    PARTS_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    ANNOTATIONS_FIELD_NUMBER: _ClassVar[int]
    TOPOLOGY_COUNTS_FIELD_NUMBER: _ClassVar[int]
    parts: _containers.RepeatedScalarFieldContainer[PodPart]
    labels: MapReads
    annotations: MapReads
    topology_counts: _containers.RepeatedCompositeFieldContainer[TopologyCountReads]
    def __init__(self, parts: _Optional[_Iterable[_Union[PodPart, str]]] = ..., labels: _Optional[_Union[MapReads, _Mapping]] = ..., annotations: _Optional[_Union[MapReads, _Mapping]] = ..., topology_counts: _Optional[_Iterable[_Union[TopologyCountReads, _Mapping]]] = ...) -> None: ...

class NodeReads(_message.Message):
    __slots__ = ("parts", "labels", "annotations", "pod_counts")
    PARTS_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    ANNOTATIONS_FIELD_NUMBER: _ClassVar[int]
    POD_COUNTS_FIELD_NUMBER: _ClassVar[int]
    parts: _containers.RepeatedScalarFieldContainer[NodePart]
    labels: MapReads
    annotations: MapReads
    pod_counts: _containers.RepeatedCompositeFieldContainer[PodCountReads]
    def __init__(self, parts: _Optional[_Iterable[_Union[NodePart, str]]] = ..., labels: _Optional[_Union[MapReads, _Mapping]] = ..., annotations: _Optional[_Union[MapReads, _Mapping]] = ..., pod_counts: _Optional[_Iterable[_Union[PodCountReads, _Mapping]]] = ...) -> None: ...

class PodCountReads(_message.Message):
    __slots__ = ("by", "label", "requests")
    BY_FIELD_NUMBER: _ClassVar[int]
    LABEL_FIELD_NUMBER: _ClassVar[int]
    REQUESTS_FIELD_NUMBER: _ClassVar[int]
    by: PodCountBy
    label: str
    requests: bool
    def __init__(self, by: _Optional[_Union[PodCountBy, str]] = ..., label: _Optional[str] = ..., requests: _Optional[bool] = ...) -> None: ...

class TopologyCountReads(_message.Message):
    __slots__ = ("by", "label", "topology_key", "requests")
    BY_FIELD_NUMBER: _ClassVar[int]
    LABEL_FIELD_NUMBER: _ClassVar[int]
    TOPOLOGY_KEY_FIELD_NUMBER: _ClassVar[int]
    REQUESTS_FIELD_NUMBER: _ClassVar[int]
    by: PodCountBy
    label: str
    topology_key: str
    requests: bool
    def __init__(self, by: _Optional[_Union[PodCountBy, str]] = ..., label: _Optional[str] = ..., topology_key: _Optional[str] = ..., requests: _Optional[bool] = ...) -> None: ...

class MapReads(_message.Message):
    __slots__ = ("keys", "prefixes")
    KEYS_FIELD_NUMBER: _ClassVar[int]
    PREFIXES_FIELD_NUMBER: _ClassVar[int]
    keys: _containers.RepeatedScalarFieldContainer[str]
    prefixes: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, keys: _Optional[_Iterable[str]] = ..., prefixes: _Optional[_Iterable[str]] = ...) -> None: ...
