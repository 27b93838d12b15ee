"""Certificates of a stack: an authority of its own, and a certificate for each process.

Promises: keys are P-256 and made here; a certificate names the hosts that it is for, and may be used by servers and
clients alike; what is loaded is refused with its cause and its remedy, never used in part.
"""

import ipaddress
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

AUTHORITY_DAYS, LEAF_DAYS = 3650, 397
SLACK = timedelta(minutes=5)  # for clocks that are behind


class BadCertificate(ValueError):
    """A certificate or key cannot be used: which file, what was seen, what to do."""


@dataclass(frozen=True)
class Pair:
    """A certificate with its key, both PEM."""

    certificate: bytes
    key: bytes


def make_authority(name: str, now: datetime, *, days: float = AUTHORITY_DAYS) -> Pair:
    """Return an authority that signs certificates and nothing below other authorities."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    usage = x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=True,
        crl_sign=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )
    made = (
        _begun(subject, subject, key.public_key(), now, days)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    return Pair(_pem(made), _key_pem(key))


def issue(authority: Pair, hosts: Sequence[str], now: datetime, *, days: float = LEAF_DAYS) -> Pair:
    """Return a certificate for these host names and IP addresses, signed by an authority."""
    issuer, signer = x509.load_pem_x509_certificate(authority.certificate), _private(authority.key)
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, hosts[0])])
    purposes = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
    made = (
        _begun(subject, issuer.subject, key.public_key(), now, days)
        .add_extension(x509.SubjectAlternativeName([_general(host) for host in hosts]), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage(purposes), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), critical=False)
        .sign(signer, hashes.SHA256())
    )
    return Pair(_pem(made), _key_pem(key))


def hosts_of(certificate: x509.Certificate) -> list[str]:
    """Return the host names and addresses that a certificate is for."""
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return []
    addresses = [str(each) for each in names.get_values_for_type(x509.IPAddress)]
    return [*names.get_values_for_type(x509.DNSName), *addresses]


def read_certificates(path: Path) -> list[x509.Certificate]:
    """Return the certificates in a PEM file, one at least. Raises BadCertificate."""
    try:
        return x509.load_pem_x509_certificates(path.read_bytes())
    except OSError as error:
        raise BadCertificate(f"{path} cannot be read: {error.strerror}") from None
    except ValueError:
        raise BadCertificate(f"{path} holds no certificate: expected PEM, -----BEGIN CERTIFICATE-----") from None


def read_authority(path: Path, now: datetime) -> bytes:
    """Return the PEM of the authorities that are trusted. Raises BadCertificate where none of them is valid now."""
    found = read_certificates(path)
    if all(now > each.not_valid_after_utc for each in found):
        raise BadCertificate(f"{path} expired at {_time(found[0].not_valid_after_utc)}: make a new authority")
    return path.read_bytes()


def read_pair(certificate: Path, key: Path, now: datetime) -> Pair:
    """Return a certificate that is valid now, with the key that belongs to it. Raises BadCertificate."""
    leaf = read_certificates(certificate)[0]
    try:
        mode, pem = stat.S_IMODE(key.stat().st_mode), key.read_bytes()
    except OSError as error:
        raise BadCertificate(f"{key} cannot be read: {error.strerror}") from None
    if mode & 0o007:
        raise BadCertificate(f"{key} can be read by others (mode {mode:04o}): chmod 600 it")
    try:
        private = serialization.load_pem_private_key(pem, password=None)
    except (ValueError, TypeError):
        raise BadCertificate(
            f"{key} holds no key without a password: expected PEM, -----BEGIN PRIVATE KEY-----"
        ) from None
    if private.public_key() != leaf.public_key():
        raise BadCertificate(f"{key} is not the key of {certificate}: replace both together")
    if now > leaf.not_valid_after_utc:
        raise BadCertificate(f"{certificate} expired at {_time(leaf.not_valid_after_utc)}: have a new one issued")
    if now < leaf.not_valid_before_utc:
        raise BadCertificate(
            f"{certificate} is valid from {_time(leaf.not_valid_before_utc)} on and it is {_time(now)}: set the clock"
        )
    return Pair(certificate.read_bytes(), pem)


def _begun(
    subject: x509.Name, issuer: x509.Name, public: ec.EllipticCurvePublicKey, now: datetime, days: float
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - SLACK)
        .not_valid_after(now + timedelta(days=days))
    )


def _general(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _private(pem: bytes) -> ec.EllipticCurvePrivateKey:
    key = serialization.load_pem_private_key(pem, password=None)
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise BadCertificate("the key of the authority is on no elliptic curve: make a new authority")
    return key


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def _time(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat(timespec="seconds")
