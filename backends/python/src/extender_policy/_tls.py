"""The server's certificate and key, read again when their files change."""

from __future__ import annotations

import logging
import ssl
from dataclasses import dataclass
from pathlib import Path

import grpc

from .errors import ServeError

LOG = logging.getLogger("extender_policy")

Signature = tuple[tuple[int, int, int], ...]


@dataclass(frozen=True)
class Tls:
    """The files of `--tls-cert`, `--tls-key` and `--tls-client-ca`, in PEM."""

    cert: str
    key: str
    client_ca: str | None = None
    """With it, clients must present a certificate of this CA."""

    def credentials(self) -> grpc.ServerCredentials:
        """Credentials that follow the files. Raises `ServeError` if they cannot be used now."""
        files = _Files(self)
        try:
            first = files.read()
        except _Unusable as error:
            raise ServeError(f"cannot start with TLS: {error}") from error
        return grpc.dynamic_ssl_server_credentials(
            first,
            files.changed,  # type: ignore[arg-type]  # None is "no change", which the types lack
            require_client_authentication=self.client_ca is not None,
        )


class _Unusable(Exception):
    """A file cannot be used: which, why, and what to do."""


class _Files:
    def __init__(self, tls: Tls) -> None:
        self._tls = tls
        self._names = [name for name in (tls.cert, tls.key, tls.client_ca) if name is not None]
        self._seen: Signature | None = None
        self._was_broken = False

    def changed(self) -> grpc.ServerCertificateConfiguration | None:
        """Called for each new connection: the new certificate, if there is one."""
        try:
            if self._signature() == self._seen:
                return None
            configuration = self.read()
        except _Unusable as error:
            self._broken(str(error))
            return None
        except Exception as error:
            self._broken(f"{type(error).__name__}: {error}")
            return None
        self._was_broken = False
        LOG.info("the TLS certificate in %s was read again", self._tls.cert)
        return configuration

    def _broken(self, text: str) -> None:
        # One line for a change, and none for each connection until the next one.
        signature = self._signature_or_none()
        if not self._was_broken or signature != self._seen:
            LOG.error("the changed TLS files cannot be used, and the earlier certificate stays: %s", text)
        self._was_broken = True
        self._seen = signature

    def read(self) -> grpc.ServerCertificateConfiguration:
        """The files, if they fit together."""
        signature = self._signature()
        cert, key = _bytes(self._tls.cert), _bytes(self._tls.key)
        ca = None if self._tls.client_ca is None else _bytes(self._tls.client_ca)
        self._check()
        self._seen = signature
        return grpc.ssl_server_certificate_configuration([(key, cert)], root_certificates=ca)

    def _check(self) -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        remedy = "expected a certificate chain and its private key without a password, both in PEM"
        try:
            # Without the function, an encrypted key would ask for its password on the terminal.
            context.load_cert_chain(self._tls.cert, self._tls.key, password=lambda: "")
        except (OSError, ValueError) as error:
            raise _Unusable(f"{self._tls.cert} and {self._tls.key}: {_cause(error)}; {remedy}") from error
        if self._tls.client_ca is not None:
            try:
                context.load_verify_locations(self._tls.client_ca)
            except (OSError, ValueError) as error:
                text = f"{self._tls.client_ca}: {_cause(error)}; expected certificates in PEM"
                raise _Unusable(text) from error

    def _signature(self) -> Signature:
        return tuple(_stat(name) for name in self._names)

    def _signature_or_none(self) -> Signature | None:
        try:
            return self._signature()
        except _Unusable:
            return None


def _stat(name: str) -> tuple[int, int, int]:
    try:
        found = Path(name).stat()
    except OSError as error:
        raise _unreadable(name, error) from error
    return found.st_mtime_ns, found.st_size, found.st_ino


def _bytes(name: str) -> bytes:
    try:
        return Path(name).read_bytes()
    except OSError as error:
        raise _unreadable(name, error) from error


def _unreadable(name: str, error: OSError) -> _Unusable:
    return _Unusable(f"cannot read {name}: {error.strerror}; give the path of a file that this process may read")


def _cause(error: Exception) -> str:
    return str(getattr(error, "strerror", None) or error)
