from extender_policy._api.v1alpha1 import node_pb2 as _node_pb2
from extender_policy._api.v1alpha1 import pod_pb2 as _pod_pb2
from extender_policy._api.v1alpha1 import policy_pb2 as _policy_pb2
from extender_policy._api.v1alpha1 import resources_pb2 as _resources_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class BeforeFilterRequest(_message.Message):
    __slots__ = ("call", "pod")
    CALL_FIELD_NUMBER: _ClassVar[int]
    POD_FIELD_NUMBER: _ClassVar[int]
    call: _policy_pb2.Call
    pod: _pod_pb2.Pod
    def __init__(self, call: _Optional[_Union[_policy_pb2.Call, _Mapping]] = ..., pod: _Optional[_Union[_pod_pb2.Pod, _Mapping]] = ...) -> None: ...

class BeforeFilterResponse(_message.Message):
    __slots__ = ("result", "pod")
    RESULT_FIELD_NUMBER: _ClassVar[int]
    POD_FIELD_NUMBER: _ClassVar[int]
    result: _policy_pb2.Result
    pod: PodChange
    def __init__(self, result: _Optional[_Union[_policy_pb2.Result, _Mapping]] = ..., pod: _Optional[_Union[PodChange, _Mapping]] = ...) -> None: ...

class BeforeFilterNodesRequest(_message.Message):
    __slots__ = ("call", "pod", "nodes")
    CALL_FIELD_NUMBER: _ClassVar[int]
    POD_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    call: _policy_pb2.Call
    pod: _pod_pb2.Pod
    nodes: _node_pb2.Nodes
    def __init__(self, call: _Optional[_Union[_policy_pb2.Call, _Mapping]] = ..., pod: _Optional[_Union[_pod_pb2.Pod, _Mapping]] = ..., nodes: _Optional[_Union[_node_pb2.Nodes, _Mapping]] = ...) -> None: ...

class BeforeFilterNodesResponse(_message.Message):
    __slots__ = ("result", "nodes")
    RESULT_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    result: _policy_pb2.Result
    nodes: _containers.RepeatedCompositeFieldContainer[NodeChange]
    def __init__(self, result: _Optional[_Union[_policy_pb2.Result, _Mapping]] = ..., nodes: _Optional[_Iterable[_Union[NodeChange, _Mapping]]] = ...) -> None: ...

class BeforeScoreRequest(_message.Message):
    __slots__ = ("call", "pod", "nodes")
    CALL_FIELD_NUMBER: _ClassVar[int]
    POD_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    call: _policy_pb2.Call
    pod: _pod_pb2.Pod
    nodes: _node_pb2.Nodes
    def __init__(self, call: _Optional[_Union[_policy_pb2.Call, _Mapping]] = ..., pod: _Optional[_Union[_pod_pb2.Pod, _Mapping]] = ..., nodes: _Optional[_Union[_node_pb2.Nodes, _Mapping]] = ...) -> None: ...

class BeforeScoreResponse(_message.Message):
    __slots__ = ("result", "pod", "nodes")
    RESULT_FIELD_NUMBER: _ClassVar[int]
    POD_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    result: _policy_pb2.Result
    pod: PodChange
    nodes: _containers.RepeatedCompositeFieldContainer[NodeChange]
    def __init__(self, result: _Optional[_Union[_policy_pb2.Result, _Mapping]] = ..., pod: _Optional[_Union[PodChange, _Mapping]] = ..., nodes: _Optional[_Iterable[_Union[NodeChange, _Mapping]]] = ...) -> None: ...

class PodChange(_message.Message):
    __slots__ = ("set_labels", "remove_labels", "set_node_selector", "remove_node_selector", "node_affinity", "remove_node_affinity", "add_tolerations", "remove_tolerations", "add_requests", "reason")
    class SetLabelsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    class SetNodeSelectorEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    SET_LABELS_FIELD_NUMBER: _ClassVar[int]
    REMOVE_LABELS_FIELD_NUMBER: _ClassVar[int]
    SET_NODE_SELECTOR_FIELD_NUMBER: _ClassVar[int]
    REMOVE_NODE_SELECTOR_FIELD_NUMBER: _ClassVar[int]
    NODE_AFFINITY_FIELD_NUMBER: _ClassVar[int]
    REMOVE_NODE_AFFINITY_FIELD_NUMBER: _ClassVar[int]
    ADD_TOLERATIONS_FIELD_NUMBER: _ClassVar[int]
    REMOVE_TOLERATIONS_FIELD_NUMBER: _ClassVar[int]
    ADD_REQUESTS_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    set_labels: _containers.ScalarMap[str, str]
    remove_labels: _containers.RepeatedScalarFieldContainer[str]
    set_node_selector: _containers.ScalarMap[str, str]
    remove_node_selector: _containers.RepeatedScalarFieldContainer[str]
    node_affinity: _pod_pb2.NodeAffinity
    remove_node_affinity: bool
    add_tolerations: _containers.RepeatedCompositeFieldContainer[_pod_pb2.Toleration]
    remove_tolerations: _containers.RepeatedCompositeFieldContainer[_pod_pb2.Toleration]
    add_requests: _resources_pb2.Resources
    reason: str
    def __init__(self, set_labels: _Optional[_Mapping[str, str]] = ..., remove_labels: _Optional[_Iterable[str]] = ..., set_node_selector: _Optional[_Mapping[str, str]] = ..., remove_node_selector: _Optional[_Iterable[str]] = ..., node_affinity: _Optional[_Union[_pod_pb2.NodeAffinity, _Mapping]] = ..., remove_node_affinity: _Optional[bool] = ..., add_tolerations: _Optional[_Iterable[_Union[_pod_pb2.Toleration, _Mapping]]] = ..., remove_tolerations: _Optional[_Iterable[_Union[_pod_pb2.Toleration, _Mapping]]] = ..., add_requests: _Optional[_Union[_resources_pb2.Resources, _Mapping]] = ..., reason: _Optional[str] = ...) -> None: ...

class NodeChange(_message.Message):
    __slots__ = ("positions", "add_allocatable", "add_usage", "set_labels", "remove_labels", "add_taints", "remove_taints", "reason", "holds")
    class SetLabelsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    POSITIONS_FIELD_NUMBER: _ClassVar[int]
    ADD_ALLOCATABLE_FIELD_NUMBER: _ClassVar[int]
    ADD_USAGE_FIELD_NUMBER: _ClassVar[int]
    SET_LABELS_FIELD_NUMBER: _ClassVar[int]
    REMOVE_LABELS_FIELD_NUMBER: _ClassVar[int]
    ADD_TAINTS_FIELD_NUMBER: _ClassVar[int]
    REMOVE_TAINTS_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    HOLDS_FIELD_NUMBER: _ClassVar[int]
    positions: _containers.RepeatedScalarFieldContainer[int]
    add_allocatable: _resources_pb2.Resources
    add_usage: _node_pb2.NodeUsage
    set_labels: _containers.ScalarMap[str, str]
    remove_labels: _containers.RepeatedScalarFieldContainer[str]
    add_taints: _containers.RepeatedCompositeFieldContainer[_node_pb2.Taint]
    remove_taints: _containers.RepeatedCompositeFieldContainer[_node_pb2.Taint]
    reason: str
    holds: _containers.RepeatedCompositeFieldContainer[Hold]
    def __init__(self, positions: _Optional[_Iterable[int]] = ..., add_allocatable: _Optional[_Union[_resources_pb2.Resources, _Mapping]] = ..., add_usage: _Optional[_Union[_node_pb2.NodeUsage, _Mapping]] = ..., set_labels: _Optional[_Mapping[str, str]] = ..., remove_labels: _Optional[_Iterable[str]] = ..., add_taints: _Optional[_Iterable[_Union[_node_pb2.Taint, _Mapping]]] = ..., remove_taints: _Optional[_Iterable[_Union[_node_pb2.Taint, _Mapping]]] = ..., reason: _Optional[str] = ..., holds: _Optional[_Iterable[_Union[Hold, _Mapping]]] = ...) -> None: ...

class Hold(_message.Message):
    __slots__ = ("resources", "users")
    RESOURCES_FIELD_NUMBER: _ClassVar[int]
    USERS_FIELD_NUMBER: _ClassVar[int]
    resources: _resources_pb2.Resources
    users: _containers.RepeatedCompositeFieldContainer[HoldUser]
    def __init__(self, resources: _Optional[_Union[_resources_pb2.Resources, _Mapping]] = ..., users: _Optional[_Iterable[_Union[HoldUser, _Mapping]]] = ...) -> None: ...

class HoldUser(_message.Message):
    __slots__ = ("uid", "at_most")
    UID_FIELD_NUMBER: _ClassVar[int]
    AT_MOST_FIELD_NUMBER: _ClassVar[int]
    uid: str
    at_most: _resources_pb2.Resources
    def __init__(self, uid: _Optional[str] = ..., at_most: _Optional[_Union[_resources_pb2.Resources, _Mapping]] = ...) -> None: ...
