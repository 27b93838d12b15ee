"""TLS of gRPC, both sides: what a process presents, whom it trusts, and why a connection was refused.

Promises: a process whose files are missing, expired or do not belong together does not start; files that were replaced
hold from the next connection on, without a restart, and what replaces good ones badly is logged and not used; an error
names the cause and the remedy; who uses no TLS does not wait for its libraries.
"""

import logging
import socket
import ssl
import threading
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import grpc

if TYPE_CHECKING:
    from tutti.chassis.config.sections import TlsSettings
    from tutti.chassis.identity.certificates import Pair

log = logging.getLogger(__name__)
LOOK_SECONDS = 2.0
BROKEN = ("handshake", "verification", "Socket closed", "reset by peer", "Broken pipe", "GOAWAY")
SEVERAL = "all addresses"
HTTP2 = "h2"
Stamp = tuple[tuple[int, int], ...]


class Tls:
    """The files of the settings, read again when they change. Safe for any thread."""

    def __init__(self, settings: "TlsSettings") -> None:
        """Raises SettingsError where the files cannot be used now."""
        from tutti.chassis.config.settings import SettingsError

        self.settings = settings
        self._authority, self._stamp, self._used = b"", Stamp(), Stamp()
        self._pair: Pair | None = None
        self._lock = threading.Lock()
        if reason := self._read():
            raise SettingsError(f"tls: {reason}")

    @property
    def serves(self) -> bool:
        """True if servers use TLS; clients do if an authority is trusted."""
        return bool(self.settings.certificate)

    @property
    def stamp(self) -> Stamp:
        """Grows with every new version of the files that could be used."""
        with self._lock:
            if _stamp(self.settings) != self._stamp and (reason := self._read()):
                log.warning("tls: the files changed and cannot be used; the previous ones stay in use: %s", reason)
            return self._used

    def channel(self) -> grpc.ChannelCredentials:
        """Credentials of a client; with the own certificate where there is one."""
        with self._lock:
            key, certificate = (self._pair.key, self._pair.certificate) if self._pair else (None, None)
            return grpc.ssl_channel_credentials(self._authority, key, certificate)

    def server(self) -> grpc.ServerCredentials:
        """Credentials of a server, which looks for new files at each connection."""
        given = [self.stamp]

        def fetch() -> grpc.ServerCertificateConfiguration | None:
            before, given[0] = given[0], self.stamp
            return None if before == given[0] else self._configuration()

        required = self.settings.clients == "certificate"
        # None means that the former one holds, which the stubs of types do not know.
        return grpc.dynamic_ssl_server_credentials(self._configuration(), fetch, required)  # type: ignore[arg-type]

    def _configuration(self) -> grpc.ServerCertificateConfiguration:
        with self._lock:
            assert self._pair is not None
            trusted = self._authority if self.settings.clients == "certificate" else None
            return grpc.ssl_server_certificate_configuration([(self._pair.key, self._pair.certificate)], trusted)

    def _read(self) -> str:
        """Take the files as they are now; why they cannot be used, "" where they can."""
        from tutti.chassis.identity.certificates import BadCertificate, read_authority, read_pair

        now, settings = datetime.now(UTC), self.settings
        self._stamp = _stamp(settings)
        try:
            authority = read_authority(Path(settings.ca), now)
            pair = read_pair(Path(settings.certificate), Path(settings.key), now) if settings.certificate else None
        except BadCertificate as error:
            return str(error)
        self._authority, self._pair, self._used = authority, pair, self._stamp
        return ""


def tls_of(settings: "TlsSettings") -> Tls | None:
    """The TLS of the settings; None where nothing is set. Raises SettingsError."""
    return Tls(settings) if settings.ca else None


def expiries(tls: Tls) -> list[tuple[str, datetime]]:
    """Return the files of a process with the moment at which each expires. Raises BadCertificate."""
    from tutti.chassis.identity.certificates import read_certificates

    files = [each for each in (tls.settings.certificate, tls.settings.ca) if each]
    return [(file, read_certificates(Path(file))[0].not_valid_after_utc) for file in files]


def explained(address: str, tls: Tls | None, details: str) -> str:
    """Return why the connection failed, if TLS is the reason, and what to do; "" for any other failure.

    `details` are gRPC's, which name no cause where the other side refuses: the handshake is tried again for it. Of a
    name with several addresses they have the last error alone, which need not be that of the handshake.
    """
    host, _, port = address.rpartition(":")
    host = host.strip("[]")
    try:
        if any(word in details for word in BROKEN) or (SEVERAL in details and _has_several_addresses(host, int(port))):
            return _tried(host, int(port), address, tls)
    except (OSError, ValueError):
        pass
    return ""


def _has_several_addresses(host: str, port: int) -> bool:
    return len(socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)) > 1


def _tried(host: str, port: int, address: str, tls: Tls | None) -> str:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.set_alpn_protocols([HTTP2])
    if tls is None:
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    else:
        context.load_verify_locations(tls.settings.ca)
        if tls.settings.certificate:
            context.load_cert_chain(tls.settings.certificate, tls.settings.key)
    with socket.create_connection((host, port), LOOK_SECONDS) as plain:
        try:
            with context.wrap_socket(plain, server_hostname=host) as secure:
                if tls is None:
                    return f"{address} speaks TLS: name the authority that it is certified by with tls.ca (--tls-ca)"
                # With TLS 1.3 the server judges our certificate after the handshake: it greets us, or hangs up.
                return "" if secure.recv(1) else _refused(address, tls)
        except TimeoutError:
            return ""
        except ssl.SSLCertVerificationError as error:
            return _mistrusted(error, host, port, address, tls)
        except ConnectionError:
            return _refused(address, tls) if tls else ""
        except ssl.SSLError as error:
            reason = str(error.reason or error).upper()
            if tls is None:
                return ""
            if "WRONG_VERSION_NUMBER" in reason or "RECORD_LAYER_FAILURE" in reason:
                return f"{address} does not speak TLS: set tls.certificate and tls.key there; nothing was sent to it"
            return _refused(address, tls)


def _mistrusted(error: ssl.SSLCertVerificationError, host: str, port: int, address: str, tls: Tls | None) -> str:
    """The reason why the certificate of the server is not accepted."""
    assert tls is not None
    trusted = tls.settings.ca
    if error.verify_code == 10:  # X509_V_ERR_CERT_HAS_EXPIRED
        return f"the certificate of {address} has expired: replace tls.certificate and tls.key there"
    if error.verify_code == 9:  # X509_V_ERR_CERT_NOT_YET_VALID
        return f"the certificate of {address} is not valid yet: compare the clocks of both machines"
    if error.verify_code in (62, 64):  # X509_V_ERR_HOSTNAME_MISMATCH, X509_V_ERR_IP_ADDRESS_MISMATCH
        names = ", ".join(_presented(host, port)) or "no host"
        return f"the certificate of {address} is for {names}, not for {host}: call it by such a name, or reissue it"
    return (
        f"the certificate of {address} is not signed by an authority in {trusted} ({error.verify_message}): set tls.ca "
        f"(--tls-ca) to the authority of this stack, and do not go on if you expected it to be"
    )


def _refused(address: str, tls: Tls) -> str:
    """The reason why the server closed the connection after it saw our certificate, or none."""
    own = tls.settings.certificate
    if not own:
        return f"{address} asks for a certificate of its clients: set tls.certificate and tls.key"
    until = dict(expiries(tls))[own]
    if datetime.now(UTC) > until:
        return f"{address} refused {own}, which expired at {until:%Y-%m-%d %H:%M} UTC: have a new one issued"
    return f"{address} refused {own}, which no authority in its tls.ca signed: present a certificate of its stack"


def _presented(host: str, port: int) -> list[str]:
    """The hosts that the certificate of a server is for, unverified: for a message alone."""
    from cryptography import x509

    from tutti.chassis.identity.certificates import hosts_of

    pem = ssl.get_server_certificate((host, port), timeout=LOOK_SECONDS)
    return hosts_of(x509.load_pem_x509_certificate(pem.encode()))


def _stamp(settings: "TlsSettings") -> Stamp:
    found = []
    for file in (settings.certificate, settings.key, settings.ca):
        try:
            seen = Path(file).stat() if file else None
        except OSError:
            seen = None
        found.append((seen.st_mtime_ns, seen.st_ino) if seen else (0, 0))
    return tuple(found)
