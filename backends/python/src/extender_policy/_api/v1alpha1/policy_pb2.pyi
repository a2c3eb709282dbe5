from extender_policy._api.v1alpha1 import info_pb2 as _info_pb2
from extender_policy._api.v1alpha1 import node_pb2 as _node_pb2
from extender_policy._api.v1alpha1 import pod_pb2 as _pod_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Purpose(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    PURPOSE_UNSPECIFIED: _ClassVar[Purpose]
    PURPOSE_DECIDE: _ClassVar[Purpose]
    PURPOSE_SPECULATE: _ClassVar[Purpose]
    PURPOSE_SHADOW: _ClassVar[Purpose]
    PURPOSE_REPLAY: _ClassVar[Purpose]
    PURPOSE_SIMULATE: _ClassVar[Purpose]

class Miss(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    MISS_UNSPECIFIED: _ClassVar[Miss]
    MISS_FORM_UNKNOWN: _ClassVar[Miss]
    MISS_TABLE_UNKNOWN: _ClassVar[Miss]
    MISS_TABLE_BEHIND: _ClassVar[Miss]

class BindOutcome(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    BIND_OUTCOME_UNSPECIFIED: _ClassVar[BindOutcome]
    BIND_OUTCOME_BOUND: _ClassVar[BindOutcome]
    BIND_OUTCOME_DECLINED: _ClassVar[BindOutcome]
    BIND_OUTCOME_NOT_BOUND: _ClassVar[BindOutcome]
PURPOSE_UNSPECIFIED: Purpose
PURPOSE_DECIDE: Purpose
PURPOSE_SPECULATE: Purpose
PURPOSE_SHADOW: Purpose
PURPOSE_REPLAY: Purpose
PURPOSE_SIMULATE: Purpose
MISS_UNSPECIFIED: Miss
MISS_FORM_UNKNOWN: Miss
MISS_TABLE_UNKNOWN: Miss
MISS_TABLE_BEHIND: Miss
BIND_OUTCOME_UNSPECIFIED: BindOutcome
BIND_OUTCOME_BOUND: BindOutcome
BIND_OUTCOME_DECLINED: BindOutcome
BIND_OUTCOME_NOT_BOUND: BindOutcome

class Call(_message.Message):
    __slots__ = ("id", "purpose", "gateway", "backend", "args", "reads", "snapshot")
    ID_FIELD_NUMBER: _ClassVar[int]
    PURPOSE_FIELD_NUMBER: _ClassVar[int]
    GATEWAY_FIELD_NUMBER: _ClassVar[int]
    BACKEND_FIELD_NUMBER: _ClassVar[int]
    ARGS_FIELD_NUMBER: _ClassVar[int]
    READS_FIELD_NUMBER: _ClassVar[int]
    SNAPSHOT_FIELD_NUMBER: _ClassVar[int]
    id: str
    purpose: Purpose
    gateway: str
    backend: str
    args: bytes
    reads: int
    snapshot: int
    def __init__(self, id: _Optional[str] = ..., purpose: _Optional[_Union[Purpose, str]] = ..., gateway: _Optional[str] = ..., backend: _Optional[str] = ..., args: _Optional[bytes] = ..., reads: _Optional[int] = ..., snapshot: _Optional[int] = ...) -> None: ...

class Result(_message.Message):
    __slots__ = ("evaluated", "miss", "revision")
    EVALUATED_FIELD_NUMBER: _ClassVar[int]
    MISS_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    evaluated: int
    miss: Miss
    revision: str
    def __init__(self, evaluated: _Optional[int] = ..., miss: _Optional[_Union[Miss, str]] = ..., revision: _Optional[str] = ...) -> None: ...

class FilterRequest(_message.Message):
    __slots__ = ("call", "pod", "nodes", "want_scores")
    CALL_FIELD_NUMBER: _ClassVar[int]
    POD_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    WANT_SCORES_FIELD_NUMBER: _ClassVar[int]
    call: Call
    pod: _pod_pb2.Pod
    nodes: _node_pb2.Nodes
    want_scores: bool
    def __init__(self, call: _Optional[_Union[Call, _Mapping]] = ..., pod: _Optional[_Union[_pod_pb2.Pod, _Mapping]] = ..., nodes: _Optional[_Union[_node_pb2.Nodes, _Mapping]] = ..., want_scores: _Optional[bool] = ...) -> None: ...

class FilterResponse(_message.Message):
    __slots__ = ("result", "rejections", "scores")
    RESULT_FIELD_NUMBER: _ClassVar[int]
    REJECTIONS_FIELD_NUMBER: _ClassVar[int]
    SCORES_FIELD_NUMBER: _ClassVar[int]
    result: Result
    rejections: _containers.RepeatedCompositeFieldContainer[Rejection]
    scores: Scores
    def __init__(self, result: _Optional[_Union[Result, _Mapping]] = ..., rejections: _Optional[_Iterable[_Union[Rejection, _Mapping]]] = ..., scores: _Optional[_Union[Scores, _Mapping]] = ...) -> None: ...

class Rejection(_message.Message):
    __slots__ = ("reason", "preemption_may_help", "positions", "rule")
    REASON_FIELD_NUMBER: _ClassVar[int]
    PREEMPTION_MAY_HELP_FIELD_NUMBER: _ClassVar[int]
    POSITIONS_FIELD_NUMBER: _ClassVar[int]
    RULE_FIELD_NUMBER: _ClassVar[int]
    reason: str
    preemption_may_help: bool
    positions: _containers.RepeatedScalarFieldContainer[int]
    rule: str
    def __init__(self, reason: _Optional[str] = ..., preemption_may_help: _Optional[bool] = ..., positions: _Optional[_Iterable[int]] = ..., rule: _Optional[str] = ...) -> None: ...

class ScoreRequest(_message.Message):
    __slots__ = ("call", "pod", "nodes")
    CALL_FIELD_NUMBER: _ClassVar[int]
    POD_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    call: Call
    pod: _pod_pb2.Pod
    nodes: _node_pb2.Nodes
    def __init__(self, call: _Optional[_Union[Call, _Mapping]] = ..., pod: _Optional[_Union[_pod_pb2.Pod, _Mapping]] = ..., nodes: _Optional[_Union[_node_pb2.Nodes, _Mapping]] = ...) -> None: ...

class ScoreResponse(_message.Message):
    __slots__ = ("result", "scores")
    RESULT_FIELD_NUMBER: _ClassVar[int]
    SCORES_FIELD_NUMBER: _ClassVar[int]
    result: Result
    scores: Scores
    def __init__(self, result: _Optional[_Union[Result, _Mapping]] = ..., scores: _Optional[_Union[Scores, _Mapping]] = ...) -> None: ...

class Scores(_message.Message):
    __slots__ = ("values",)
    VALUES_FIELD_NUMBER: _ClassVar[int]
    values: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, values: _Optional[_Iterable[int]] = ...) -> None: ...

class PreemptRequest(_message.Message):
    __slots__ = ("call", "pod", "nodes", "candidates")
    CALL_FIELD_NUMBER: _ClassVar[int]
    POD_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    CANDIDATES_FIELD_NUMBER: _ClassVar[int]
    call: Call
    pod: _pod_pb2.Pod
    nodes: _node_pb2.Nodes
    candidates: _containers.RepeatedCompositeFieldContainer[Candidate]
    def __init__(self, call: _Optional[_Union[Call, _Mapping]] = ..., pod: _Optional[_Union[_pod_pb2.Pod, _Mapping]] = ..., nodes: _Optional[_Union[_node_pb2.Nodes, _Mapping]] = ..., candidates: _Optional[_Iterable[_Union[Candidate, _Mapping]]] = ...) -> None: ...

class Candidate(_message.Message):
    __slots__ = ("victims", "pdb_violations")
    VICTIMS_FIELD_NUMBER: _ClassVar[int]
    PDB_VIOLATIONS_FIELD_NUMBER: _ClassVar[int]
    victims: _containers.RepeatedCompositeFieldContainer[Victim]
    pdb_violations: int
    def __init__(self, victims: _Optional[_Iterable[_Union[Victim, _Mapping]]] = ..., pdb_violations: _Optional[int] = ...) -> None: ...

class Victim(_message.Message):
    __slots__ = ("uid", "pod")
    UID_FIELD_NUMBER: _ClassVar[int]
    POD_FIELD_NUMBER: _ClassVar[int]
    uid: str
    pod: _pod_pb2.Pod
    def __init__(self, uid: _Optional[str] = ..., pod: _Optional[_Union[_pod_pb2.Pod, _Mapping]] = ...) -> None: ...

class PreemptResponse(_message.Message):
    __slots__ = ("result", "kept")
    RESULT_FIELD_NUMBER: _ClassVar[int]
    KEPT_FIELD_NUMBER: _ClassVar[int]
    result: Result
    kept: _containers.RepeatedCompositeFieldContainer[KeptCandidate]
    def __init__(self, result: _Optional[_Union[Result, _Mapping]] = ..., kept: _Optional[_Iterable[_Union[KeptCandidate, _Mapping]]] = ...) -> None: ...

class KeptCandidate(_message.Message):
    __slots__ = ("position", "victims", "added_uids")
    POSITION_FIELD_NUMBER: _ClassVar[int]
    VICTIMS_FIELD_NUMBER: _ClassVar[int]
    ADDED_UIDS_FIELD_NUMBER: _ClassVar[int]
    position: int
    victims: _containers.RepeatedScalarFieldContainer[int]
    added_uids: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, position: _Optional[int] = ..., victims: _Optional[_Iterable[int]] = ..., added_uids: _Optional[_Iterable[str]] = ...) -> None: ...

class BindRequest(_message.Message):
    __slots__ = ("call", "namespace", "name", "uid", "node", "pod")
    CALL_FIELD_NUMBER: _ClassVar[int]
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    UID_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    POD_FIELD_NUMBER: _ClassVar[int]
    call: Call
    namespace: str
    name: str
    uid: str
    node: str
    pod: _pod_pb2.Pod
    def __init__(self, call: _Optional[_Union[Call, _Mapping]] = ..., namespace: _Optional[str] = ..., name: _Optional[str] = ..., uid: _Optional[str] = ..., node: _Optional[str] = ..., pod: _Optional[_Union[_pod_pb2.Pod, _Mapping]] = ...) -> None: ...

class BindResponse(_message.Message):
    __slots__ = ("outcome", "message")
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    outcome: BindOutcome
    message: str
    def __init__(self, outcome: _Optional[_Union[BindOutcome, str]] = ..., message: _Optional[str] = ...) -> None: ...
