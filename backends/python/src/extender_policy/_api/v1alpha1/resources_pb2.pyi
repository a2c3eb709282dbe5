from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional

DESCRIPTOR: _descriptor.FileDescriptor

class Resources(_message.Message):
    __slots__ = ("milli_cpu", "memory", "ephemeral_storage", "pods", "others")
    class OthersEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    MILLI_CPU_FIELD_NUMBER: _ClassVar[int]
    MEMORY_FIELD_NUMBER: _ClassVar[int]
    EPHEMERAL_STORAGE_FIELD_NUMBER: _ClassVar[int]
    PODS_FIELD_NUMBER: _ClassVar[int]
    OTHERS_FIELD_NUMBER: _ClassVar[int]
    milli_cpu: int
    memory: int
    ephemeral_storage: int
    pods: int
    others: _containers.ScalarMap[str, int]
    def __init__(self, milli_cpu: _Optional[int] = ..., memory: _Optional[int] = ..., ephemeral_storage: _Optional[int] = ..., pods: _Optional[int] = ..., others: _Optional[_Mapping[str, int]] = ...) -> None: ...

class NonZero(_message.Message):
    __slots__ = ("milli_cpu", "memory")
    MILLI_CPU_FIELD_NUMBER: _ClassVar[int]
    MEMORY_FIELD_NUMBER: _ClassVar[int]
    milli_cpu: int
    memory: int
    def __init__(self, milli_cpu: _Optional[int] = ..., memory: _Optional[int] = ...) -> None: ...
