"""A certificate authority of a test, and a door with TLS before a server that has none."""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

#: What libpq sends first when it wants TLS, and the answer that it may begin.
_SSL_REQUEST, _BEGIN = b"\x00\x00\x00\x08\x04\xd2\x16\x2f", b"S"


class Authority:
    """Vouches for servers called `localhost`."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        key, self.file = ec.generate_private_key(ec.SECP256R1()), folder / "ca.pem"
        about = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"authority {folder.name}")])
        ca = self._certificate(about, about, key, key, x509.BasicConstraints(ca=True, path_length=0))
        self.file.write_bytes(ca.public_bytes(serialization.Encoding.PEM))
        own = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
        certificate = self._certificate(name, about, own, key, x509.SubjectAlternativeName([x509.DNSName("localhost")]))
        plain = serialization.NoEncryption()
        private = own.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain)
        (folder / "server.pem").write_bytes(private + certificate.public_bytes(serialization.Encoding.PEM))
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.load_cert_chain(folder / "server.pem")

    def _certificate(
        self,
        subject: x509.Name,
        issuer: x509.Name,
        key: ec.EllipticCurvePrivateKey,
        signed_by: ec.EllipticCurvePrivateKey,
        extension: x509.ExtensionType,
    ) -> x509.Certificate:
        now = datetime.now(UTC)
        made = x509.CertificateBuilder().subject_name(subject).issuer_name(issuer).public_key(key.public_key())
        made = made.serial_number(x509.random_serial_number()).not_valid_before(now - timedelta(days=1))
        made = made.not_valid_after(now + timedelta(days=1)).add_extension(extension, critical=True)
        return made.sign(signed_by, hashes.SHA256())


@contextlib.contextmanager
def door(authority: Authority, to: int | str) -> Iterator[int]:
    """Listen with TLS before a server at this port, or at this Unix socket of a PostgreSQL. Gives the port."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        threading.Thread(target=_accept, args=(listening, authority, to), daemon=True).start()
        yield listening.getsockname()[1]
        listening.shutdown(socket.SHUT_RDWR)  # ends the thread


def _accept(listening: socket.socket, authority: Authority, to: int | str) -> None:
    with contextlib.suppress(OSError):
        while True:
            came, _ = listening.accept()
            threading.Thread(target=_serve, args=(came, authority, to), daemon=True).start()


def _serve(came: socket.socket, authority: Authority, to: int | str) -> None:
    with contextlib.suppress(OSError), came:
        if isinstance(to, str):
            assert came.recv(len(_SSL_REQUEST), socket.MSG_WAITALL) == _SSL_REQUEST
            came.sendall(_BEGIN)
        family, address = (socket.AF_UNIX, to) if isinstance(to, str) else (socket.AF_INET, ("127.0.0.1", to))
        with authority.context.wrap_socket(came, server_side=True) as inside, socket.socket(family) as server:
            server.connect(address)
            back = threading.Thread(target=_pump, args=(server, inside), daemon=True)
            back.start()
            _pump(inside, server)
            back.join()


def _pump(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)
    for end in (source, target):
        with contextlib.suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)
