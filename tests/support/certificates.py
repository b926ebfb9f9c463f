"""Certificates of our own: signed by themselves, or by an authority that nobody else knows."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from ipaddress import ip_address

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    pkcs12,
)
from cryptography.x509.oid import NameOID


def self_signed(address: str) -> tuple[bytes, bytes]:
    """Returns a key and its certificate for an IP address, both in PEM."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "Compactor's tests")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address(address))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return private, made.public_bytes(Encoding.PEM)


class Authority:
    """A private authority, as a company has one."""

    def __init__(self) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "A private authority")])
        self._certificate = self._signed(self._name, self._key.public_key(), x509.BasicConstraints(True, 0))

    @property
    def pem(self) -> bytes:
        return self._certificate.public_bytes(Encoding.PEM)

    def keystore(self, host: str, password: str) -> bytes:
        """Returns a new key for ``host`` and the certificates up to the authority, as PKCS 12."""
        key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, host)])
        certificate = self._signed(name, key.public_key(), x509.SubjectAlternativeName([x509.DNSName(host)]))
        sealed = BestAvailableEncryption(password.encode())
        return pkcs12.serialize_key_and_certificates(b"server", key, certificate, [self._certificate], sealed)

    def truststore(self, password: str) -> bytes:
        """Returns the authority's certificate as Java keeps those that it trusts."""
        trusted = pkcs12.PKCS12Certificate(self._certificate, b"authority")
        return pkcs12.serialize_java_truststore([trusted], BestAvailableEncryption(password.encode()))

    def _signed(
        self, name: x509.Name, key: ec.EllipticCurvePublicKey, extension: x509.ExtensionType
    ) -> x509.Certificate:
        now = datetime.now(UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(self._name)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(days=1))
            .not_valid_after(now + timedelta(days=1))
            .add_extension(extension, critical=isinstance(extension, x509.BasicConstraints))
            .sign(self._key, hashes.SHA256())
        )
