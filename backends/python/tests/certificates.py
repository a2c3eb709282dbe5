"""Certificates for tests."""

from __future__ import annotations

import datetime
import ipaddress
from dataclasses import dataclass
from pathlib import Path

import grpc
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

PEM = serialization.Encoding.PEM


@dataclass(frozen=True)
class Pair:
    """A certificate and its key, in PEM."""

    cert: bytes
    key: bytes

    def write(self, folder: Path, name: str) -> None:
        (folder / f"{name}.crt").write_bytes(self.cert)
        (folder / f"{name}.key").write_bytes(self.key)


class Authority:
    """A CA."""

    def __init__(self) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "ca")])
        self.cert = self._signed(self._name, self._key, is_ca=True)

    def issue(self, name: str) -> Pair:
        key = ec.generate_private_key(ec.SECP256R1())
        cert = self._signed(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]), key, is_ca=False)
        encoded = key.private_bytes(PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        return Pair(cert, encoded)

    def client(self, pair: Pair | None = None) -> grpc.ChannelCredentials:
        if pair is None:
            return grpc.ssl_channel_credentials(self.cert)
        return grpc.ssl_channel_credentials(self.cert, pair.key, pair.cert)

    def _signed(self, subject: x509.Name, key: ec.EllipticCurvePrivateKey, *, is_ca: bool) -> bytes:
        now = datetime.datetime.now(datetime.timezone.utc)
        names = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(hours=1))
            .not_valid_after(now + datetime.timedelta(days=1))
            .add_extension(x509.BasicConstraints(ca=is_ca, path_length=None), critical=True)
            .add_extension(x509.SubjectAlternativeName(names), critical=False)
        )
        return builder.sign(self._key, hashes.SHA256()).public_bytes(PEM)
