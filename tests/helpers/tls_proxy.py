"""HTTPS with a user and a password in front of a server that has neither, and the certificate that it shows."""

from __future__ import annotations

import ssl
import threading
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import IPv4Address
from pathlib import Path

import httpx2
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

HOST = "127.0.0.1"


def certificate(folder: Path) -> Path:
    """A file with a certificate for this machine, which signs itself, and one beside it that ends in .key."""
    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.now(UTC)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "tests of Sfumato")])
    usage = dict.fromkeys(
        ("content_commitment", "key_encipherment", "data_encipherment", "key_agreement", "crl_sign"), False
    )
    usage |= {"encipher_only": False, "decipher_only": False, "digital_signature": True, "key_cert_sign": True}
    built = x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
    built = built.not_valid_before(now - timedelta(days=1)).not_valid_after(now + timedelta(days=1))
    for extension, is_critical in (
        (x509.BasicConstraints(ca=True, path_length=None), True),
        (x509.KeyUsage(**usage), True),
        (x509.SubjectAlternativeName([x509.IPAddress(IPv4Address(HOST))]), False),
        (x509.SubjectKeyIdentifier.from_public_key(key.public_key()), False),
    ):
        built = built.add_extension(extension, is_critical)
    file = folder / "server.pem"
    file.write_bytes(built.sign(key, SHA256()).public_bytes(Encoding.PEM))
    file.with_suffix(".key").write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    return file


@contextmanager
def in_front_of(upstream: str, file: Path, user: str, password: str) -> Iterator[str]:
    """The address of a proxy while the block lasts. It asks every caller who it is."""
    expected = f"Basic {b64encode(f'{user}:{password}'.encode()).decode()}"
    with httpx2.Client(base_url=upstream, timeout=60, trust_env=False) as http:

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def answer(self) -> None:
                content = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                if self.headers.get("Authorization") != expected:
                    self.reply(401, b"who are you?", "text/plain")
                    return
                kind = self.headers.get("Content-Type")
                headers = {"Content-Type": kind} if kind else {}
                passed = http.request(self.command, self.path, content=content, headers=headers)
                self.reply(passed.status_code, passed.content, passed.headers.get("Content-Type", "text/plain"))

            def do_GET(self) -> None:
                self.answer()

            def do_POST(self) -> None:
                self.answer()

            def reply(self, status: int, content: bytes, kind: str) -> None:
                self.send_response(status)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *_: object) -> None:
                """Say nothing."""

        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(file, file.with_suffix(".key"))
        with Quiet((HOST, 0), Handler) as server:
            server.socket = context.wrap_socket(server.socket, server_side=True)
            thread = threading.Thread(target=server.serve_forever)
            thread.start()
            try:
                yield f"https://{HOST}:{server.server_port}"
            finally:
                server.shutdown()
                thread.join()


class Quiet(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_: object) -> None:
        """A caller that does not trust the certificate hangs up."""
