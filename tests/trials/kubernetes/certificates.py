"""Certificates of the users and servers of a cluster: the subject of a certificate is the name of the user.

Promises: keys are P-256, made anew for each cluster, and files of mode 0600.
"""

import ipaddress
import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from processes import write_secret

from tutti.chassis.identity.certificates import Pair, make_authority

DAYS = timedelta(days=2)
SLACK = timedelta(minutes=5)
LOOPBACK = "127.0.0.1"


class Certificates:
    """Certificates in one folder, signed by an authority of its own."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, mode=0o700)
        self._folder = folder
        self._authority: Pair = make_authority("tutti trial", datetime.now(UTC))
        self.authority = folder / "ca.pem"
        write_secret(self.authority, self._authority.certificate.decode())

    def issue(self, name: str, *, group: str = "", hosts: Sequence[str] = ()) -> tuple[Path, Path]:
        """Write the certificate and the key of a user, or of a server with `hosts`; return their paths."""
        stem = name.replace(":", "-")
        certificate, key = self._folder / f"{stem}.pem", self._folder / f"{stem}.key"
        private = ec.generate_private_key(ec.SECP256R1())
        write_secret(key, _pem(private))
        write_secret(certificate, self._signed(private, name, group, hosts))
        return certificate, key

    def signing_key(self) -> Path:
        """Write the key that signs the tokens of service accounts; return its path."""
        path = self._folder / "accounts.key"
        write_secret(path, _pem(ec.generate_private_key(ec.SECP256R1())))
        return path

    def kubeconfig(self, address: str, name: str, *, group: str = "") -> Path:
        """Write the settings of a client that is this user; return their path. `address`: HOST:PORT."""
        certificate, key = self.issue(name, group=group)
        path = self._folder / f"{certificate.stem}.kubeconfig"
        server = {"server": f"https://{address}", "certificate-authority": str(self.authority)}
        user = {"client-certificate": str(certificate), "client-key": str(key)}
        settings = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "trial", "cluster": server}],
            "users": [{"name": name, "user": user}],
            "contexts": [{"name": "trial", "context": {"cluster": "trial", "user": name}}],
            "current-context": "trial",
        }
        write_secret(path, json.dumps(settings))
        return path

    def _signed(self, private: ec.EllipticCurvePrivateKey, name: str, group: str, hosts: Sequence[str]) -> str:
        issuer = x509.load_pem_x509_certificate(self._authority.certificate)
        signer = serialization.load_pem_private_key(self._authority.key, password=None)
        assert isinstance(signer, ec.EllipticCurvePrivateKey)
        subject = [x509.NameAttribute(NameOID.COMMON_NAME, name)]
        if group:
            subject.insert(0, x509.NameAttribute(NameOID.ORGANIZATION_NAME, group))
        now = datetime.now(UTC)
        made = (
            x509.CertificateBuilder()
            .subject_name(x509.Name(subject))
            .issuer_name(issuer.subject)
            .public_key(private.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - SLACK)
            .not_valid_after(now + DAYS)
            .add_extension(
                x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]),
                critical=False,
            )
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), critical=False)
        )
        if hosts:
            names: list[x509.GeneralName] = [
                x509.IPAddress(ipaddress.ip_address(host)) if host[0].isdigit() else x509.DNSName(host)
                for host in hosts
            ]
            made = made.add_extension(x509.SubjectAlternativeName(names), critical=False)
        return made.sign(signer, hashes.SHA256()).public_bytes(serialization.Encoding.PEM).decode()


def _pem(private: ec.EllipticCurvePrivateKey) -> str:
    # Kubernetes reads no other form of a key on an elliptic curve for service accounts.
    form = serialization.PrivateFormat.TraditionalOpenSSL
    return private.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption()).decode()
