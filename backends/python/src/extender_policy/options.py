"""Where and how a policy is served."""

from __future__ import annotations

import ipaddress
import re
import socket
from dataclasses import dataclass
from typing import Any, NamedTuple

import grpc

from ._backend import Backend
from ._tls import Tls
from .errors import ServeError


class Address(NamedTuple):
    """A host and a port; port 0 takes a free one."""

    host: str
    port: int

    @staticmethod
    def parse(text: str) -> Address:
        """From HOST:PORT, such as 0.0.0.0:9000 or [::1]:0. Raises `ValueError`."""
        match = re.fullmatch(r"(\[[0-9A-Fa-f:.%\w]+\]|[^\[\]:\s/]+):([0-9]{1,5})", text)
        if match is None or int(match[2]) > 65535:
            raise ValueError(f"invalid address {text!r}; expected HOST:PORT such as 0.0.0.0:9000")
        return Address(match[1].strip("[]"), int(match[2]))

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


LOOPBACK = Address("127.0.0.1", 0)


@dataclass(frozen=True)
class Options:
    """The options of `serve` and `serve_async`."""

    address: Address = LOOPBACK
    tls: Tls | None = None
    """Certificate and key; `None`: without TLS."""
    allow_unauthenticated_bind: bool = False
    """Serves a policy that binds also beyond loopback to clients without a certificate: whoever reaches the address may
    then bind pods."""
    metrics_address: Address | None = None
    """Where `GET /metrics` serves metrics of the calls, and those that the policy registers with prometheus-client;
    `None`: nowhere. Needs the extra `metrics`."""
    log_calls: bool = False
    """Writes a line for each call to the log of the SDK, the logger "extender_policy"."""
    drain: float = 10.0
    """The most seconds that calls in progress may take after the first signal."""
    threads: int = 16
    """Of the server with threads: the calls that may be in progress at the same time, besides streams."""
    reuse_port: bool = False
    """Several processes may listen at this address; the kernel chooses one for each connection."""

    def permitted(self, backend: Backend) -> Backend:
        """The backend as it may be served at this address. Raises `ServeError`."""
        has_client_ca = self.tls is not None and self.tls.client_ca is not None
        if has_client_ca or self.allow_unauthenticated_bind or self._is_local():
            return backend
        refusal = (
            f"{self.address} is reached from other machines without a client certificate, and callers of this policy "
            "can bind pods with its permissions; set --tls-client-ca or a loopback --address, or "
            "--allow-unauthenticated-bind"
        )
        known = backend._known()
        if known is not None and known.binds:
            raise ServeError(refusal)
        return backend._exposed(refusal)

    def _is_local(self) -> bool:
        try:
            return ipaddress.ip_address(self.address.host).is_loopback
        except ValueError:
            return self.address.host == "localhost"

    def credentials(self) -> grpc.ServerCredentials | None:
        """Those of TLS. Raises `ServeError`."""
        return None if self.tls is None else self.tls.credentials()

    def bind(self, server: Any, credentials: grpc.ServerCredentials | None) -> Address:
        """Lets a server of grpcio listen, and returns the address with its port. Raises `ServeError`."""
        try:
            if credentials is None:
                port = server.add_insecure_port(str(self.address))
            else:
                port = server.add_secure_port(str(self.address), credentials)
        except RuntimeError:
            port = 0
        if not port:
            raise ServeError(
                f"cannot listen on {self.address}: {self._cause()}; "
                "set another --address, or stop the process that uses it"
            )
        return Address(self.address.host, port)

    def _cause(self) -> str:
        """Why the system does not let it listen, which grpcio does not say."""
        host, port = self.address
        try:
            family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
            with socket.socket(family, kind, protocol) as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                probe.bind(address)
                probe.listen()
        except OSError as error:
            return error.strerror or str(error)
        return "the address cannot be bound"
