"""The parts of grpcio's companion packages that have no types."""

from __future__ import annotations

from typing import Any

from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import _async, reflection, reflection_pb2

_health: Any = health

SERVING: Any = health_pb2.HealthCheckResponse.SERVING
HealthServicer: Any = _health.HealthServicer
AsyncHealthServicer: Any = _health.aio.HealthServicer
add_health: Any = health_pb2_grpc.add_HealthServicer_to_server

ReflectionServicer: Any = reflection.ReflectionServicer
AsyncReflectionServicer: Any = _async.ReflectionServicer
ReflectionRequest: Any = reflection_pb2.ServerReflectionRequest
ReflectionResponse: Any = reflection_pb2.ServerReflectionResponse
