"""deploy/nginx.conf, started by a real nginx before a real lab with accounts: TLS, login, websockets, uploads."""

from __future__ import annotations

import contextlib
import getpass
import http.client
import re
import shutil
import socket
import ssl
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlencode, urlsplit

import pytest

from access import accounts
from host.ports import free_port
from lab.roles import Role
from tests.access.web.labs import PASSWORD, Lab, lab_served
from tests.actors import ADMIN
from tests.cli.homes import REPOSITORY
from tests.workers.homes import until
from warehouse.app_db import audit

NAME = "lab.example.org"
CONFIGURATION = REPOSITORY / "deploy" / "nginx.conf"
MAIN = """
daemon off;
user {user};
worker_processes 1;
pid {folder}/pid;
error_log {folder}/error.log;
events {{}}
http {{
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    include {folder}/site.conf;
}}
"""
#: The program is not on the path of everybody.
PROGRAM = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin:/usr/local/sbin") or "nginx"


@dataclass(frozen=True)
class Proxy:
    lab: Lab
    folder: Path
    tls: int
    plain: int
    trust: ssl.SSLContext

    def ask(
        self,
        path: str,
        method: str = "GET",
        *,
        name: str = NAME,
        headers: dict[str, str] | None = None,
        data: dict[str, str] | bytes | None = None,
        source: str = "127.0.0.1",
    ) -> tuple[int, dict[str, str]]:
        form = {"Content-Type": "application/x-www-form-urlencoded"} if isinstance(data, dict) else {}
        body = urlencode(data) if isinstance(data, dict) else data
        with self.connected(name, source) as connection:
            # A refusal may come before the whole body was sent.
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                connection.request(method, path, body, {"Host": name} | form | (headers or {}))
            with connection.getresponse() as answer:
                answer.read()
                return answer.status, {key.lower(): value for key, value in answer.getheaders()}

    @contextlib.contextmanager
    def connected(self, name: str = NAME, source: str = "127.0.0.1") -> Iterator[http.client.HTTPConnection]:
        """A connection over TLS; the name is in its handshake."""
        with (
            socket.create_connection(("127.0.0.1", self.tls), 600, (source, 0)) as plain,
            self.trust.wrap_socket(plain, server_hostname=name) as secured,
        ):
            connection = http.client.HTTPConnection(name)
            connection.sock = secured
            yield connection

    def websocket(self, **headers: str) -> int:
        upgrade = {"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Protocol": "streamlit"}
        key = {"Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ=="}
        return self.ask("/_stcore/stream", headers={"Origin": f"https://{NAME}"} | upgrade | key | headers)[0]


@pytest.fixture(scope="module")
def proxy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxy]:
    folder = tmp_path_factory.mktemp("nginx")
    settings = {
        "DRAFTHOUSE_WEB_LOGIN": "accounts",
        "DRAFTHOUSE_WEB_HTTPS": "true",
        "DRAFTHOUSE_WEB_PUBLIC_HOSTS": NAME,
        "DRAFTHOUSE_WEB_PROXIES": "127.0.0.1",
    }
    with lab_served(folder, settings) as lab:
        tls, plain = free_port(), free_port()
        trust = certificate(folder)
        site = CONFIGURATION.read_text()
        for shipped, here in {
            "127.0.0.1:8501": lab.host,
            "listen 80": f"listen 127.0.0.1:{plain}",
            "listen 443": f"listen 127.0.0.1:{tls}",
            "/etc/ssl/drafthouse": str(folder),
            "/var/log/nginx": str(folder),
            "client_header_timeout 20s": "client_header_timeout 600s",  # on a busy machine tests send late
            "client_body_timeout   30s": "client_body_timeout 600s",
        }.items():
            assert shipped in site
            site = site.replace(shipped, here)
        (folder / "site.conf").write_text(site)
        (folder / "main.conf").write_text(MAIN.format(folder=folder, user=getpass.getuser()))
        command = (PROGRAM, "-p", str(folder), "-e", str(folder / "error.log"), "-c", str(folder / "main.conf"))
        nginx = subprocess.Popen(command)
        try:
            until(lambda: listens(tls, nginx, folder), "nginx listens")
            yield Proxy(lab, folder, tls, plain, trust)
        finally:
            nginx.terminate()
            nginx.wait(600)


def certificate(folder: Path) -> ssl.SSLContext:
    """Of its own authority: what trusts it and nothing else."""
    files = ("-keyout", str(folder / "privkey.pem"), "-out", str(folder / "fullchain.pem"))
    about = ("-days", "2", "-subj", f"/CN={NAME}", "-addext", f"subjectAltName=DNS:{NAME},DNS:elsewhere.example")
    made = ("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
    subprocess.run((*made, *files, *about), check=True, capture_output=True)
    return ssl.create_default_context(cafile=folder / "fullchain.pem")


def listens(port: int, nginx: subprocess.Popen[bytes], folder: Path) -> bool:
    assert nginx.poll() is None, (folder / "error.log").read_text()
    with contextlib.suppress(ConnectionError):
        socket.create_connection(("127.0.0.1", port), 600).close()
        return True
    return False


def signed_in(proxy: Proxy, name: str, role: Role = Role.VIEWER) -> str:
    """A user's cookie, who came in through the proxy."""
    accounts.add_user(proxy.lab.database, name, role, actor=ADMIN)
    link = f"/login/link/{accounts.new_link(proxy.lab.database, name, actor=ADMIN)}"
    fields = {"password": PASSWORD, "again": PASSWORD}
    status, headers = proxy.ask(link, "POST", data=fields, headers={"Origin": f"https://{NAME}"})
    assert (status, headers["location"]) == (303, "/")
    return headers["set-cookie"]


def test_a_visitor_is_led_to_tls_and_to_the_login(proxy: Proxy) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", proxy.plain, timeout=600)
    with contextlib.closing(connection):
        connection.request("GET", "/results?job=1", headers={"Host": NAME})
        plainly = connection.getresponse()
        assert (plainly.status, plainly.headers["Location"]) == (301, f"https://{NAME}/results?job=1")
    status, headers = proxy.ask("/results?job=1")
    assert (status, headers["location"]) == (303, "/login?next=%2Fresults%3Fjob%3D1")
    assert headers["strict-transport-security"].startswith("max-age=")
    assert "nginx/" not in headers["server"]


def test_the_login_works_and_its_cookie_goes_by_tls_alone(proxy: Proxy) -> None:
    cookie = signed_in(proxy, "tess")
    assert cookie.startswith("__Host-drafthouse=")
    assert "Secure" in cookie
    cookie = cookie.partition(";")[0]
    assert proxy.ask("/home", headers={"Cookie": cookie})[0] == 200
    assert proxy.websocket() == 401
    assert proxy.websocket(Cookie=cookie) == 101
    assert proxy.websocket(Cookie=cookie, Origin="https://evil.example") == 403


def test_a_large_upload_reaches_the_lab_and_a_larger_one_does_not(proxy: Proxy) -> None:
    """The lab refuses it by what it is, nginx by its size."""
    cookie = signed_in(proxy, "una").partition(";")[0]
    headers = {"Cookie": cookie, "Origin": f"https://{NAME}"}
    assert proxy.ask("/_stcore/upload_file/s/f", "PUT", headers=headers, data=b"x" * 2_000_000)[0] in (
        400,
        403,
    )
    head = f"PUT /_stcore/upload_file/s/f HTTP/1.1\r\nHost: {NAME}\r\nContent-Length: {300 * 2**20}\r\n\r\n"
    with (
        socket.create_connection(("127.0.0.1", proxy.tls), 600) as connection,
        proxy.trust.wrap_socket(connection, server_hostname=NAME) as secured,
    ):
        secured.sendall(head.encode())
        assert secured.recv(100).startswith(b"HTTP/1.1 413 ")


def test_other_names_learn_nothing(proxy: Proxy) -> None:
    with pytest.raises(ssl.SSLError):
        proxy.ask("/", name="elsewhere.example")
    assert proxy.ask("/healthz")[0] == 404


def test_wrong_passwords_are_counted_by_the_visitors_own_address(proxy: Proxy) -> None:
    forged = {"Origin": f"https://{NAME}", "X-Forwarded-For": "203.0.113.7"}
    wrong = {"name": "nobody", "password": "x"}
    assert proxy.ask("/login", "POST", headers=forged, data=wrong, source="127.0.0.6")[0] == 401
    (refused, *_) = (entry for entry in audit.newest(proxy.lab.database, 5) if entry.action == "session.refused")
    assert refused.detail["address"] == "127.0.0.6"


def test_the_log_has_no_secret(proxy: Proxy) -> None:
    for path in ("/shared/SECRET", "/_stcore/upload_file/SECRET/SECRET", "/?token=SECRET", "/login/link/SECRET"):
        proxy.ask(path)
    file = proxy.folder / "drafthouse.log"
    until(lambda: "GET /login/link/(secret)" in file.read_text(), "the last request is logged")
    log = file.read_text()
    assert "GET /shared/(secret)" in log
    assert "GET /_stcore/upload_file/(secret)" in log
    assert "SECRET" not in log
    assert not re.search(r"[?=]", log)


def test_one_address_has_so_many_connections_and_is_let_in_again(proxy: Proxy) -> None:
    (most,) = re.findall(r"limit_conn +drafthouse_connections (\d+);", CONFIGURATION.read_text())
    slow = f"POST /home HTTP/1.1\r\nHost: {NAME}\r\nContent-Length: 9\r\n\r\nhalf".encode()
    with contextlib.ExitStack() as stack:
        for _ in range(int(most) + 5):
            plain = stack.enter_context(socket.create_connection(("127.0.0.1", proxy.tls), 600))
            stack.enter_context(proxy.trust.wrap_socket(plain, server_hostname=NAME)).sendall(slow)
        assert proxy.ask("/home")[0] == 429
    until(lambda: proxy.ask("/home")[0] == 303, "it is let in again")


def test_whoever_asks_the_doors_too_often_has_to_wait(proxy: Proxy) -> None:
    """All ask before the first is answered, however long the lab takes; and again if it took seconds to ask."""
    statuses = set[int]()
    while len(statuses) < 2:
        with contextlib.ExitStack() as stack:
            asking = [stack.enter_context(proxy.connected()) for _ in range(200)]
            for connection in asking:
                connection.request("GET", "/shared/none", headers={"Host": NAME})
            statuses.update(connection.getresponse().status for connection in asking)
    assert statuses == {404, 429}


def test_the_configuration_names_the_port_that_the_lab_listens_on() -> None:
    assert urlsplit("http://127.0.0.1:8501").netloc in CONFIGURATION.read_text()
