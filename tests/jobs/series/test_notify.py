"""Alarms leave the lab: a signed webhook and e-mail, sent to real servers of this test, once each."""

from __future__ import annotations

import hashlib
import hmac
import json
import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest

from host.settings import Settings
from jobs.series import notify, store
from jobs.series.store import Plan
from tests.actors import ADMIN
from tests.jobs.series.nights import raise_fall
from tests.workers.homes import Home

NOW = datetime(2026, 6, 2, 3, tzinfo=UTC)


class Hook(HTTPServer):
    """Stores what is posted; answers with the next of its statuses, else 200."""

    def __init__(self) -> None:
        self.posted: list[tuple[dict[str, str], bytes]] = []
        self.statuses: list[int] = []
        super().__init__(("127.0.0.1", 0), _Handler)


class _Handler(BaseHTTPRequestHandler):
    server: Hook

    def do_POST(self) -> None:
        self.server.posted.append((dict(self.headers), self.rfile.read(int(self.headers["Content-Length"]))))
        self.send_response(self.server.statuses.pop(0) if self.server.statuses else 200)
        self.end_headers()

    def log_message(self, *_: Any) -> None: ...


class Mailbox(socketserver.TCPServer):
    """A mail server as RFC 5321 wants it, without TLS and login."""

    allow_reuse_address = True

    def __init__(self) -> None:
        self.mails: list[str] = []
        self.recipients: list[str] = []
        super().__init__(("127.0.0.1", 0), _Smtp)


class _Smtp(socketserver.StreamRequestHandler):
    server: Mailbox

    def handle(self) -> None:
        self._say("220 ready")
        while line := self.rfile.readline().decode().strip():
            verb = line.partition(" ")[0].upper()
            if verb == "RCPT":
                self.server.recipients.append(line.partition(":")[2])
            if verb == "DATA":
                self._say("354 go on")
                lines = list(iter(lambda: self.rfile.readline().decode().rstrip("\r\n"), "."))
                self.server.mails.append("\n".join(lines))
            self._say("221 bye" if verb == "QUIT" else "250 ok")
            if verb == "QUIT":
                return

    def _say(self, text: str) -> None:
        self.wfile.write(f"{text}\r\n".encode())


@contextmanager
def serving(server: socketserver.BaseServer) -> Iterator[None]:
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture
def hook() -> Iterator[Hook]:
    server = Hook()
    with serving(server):
        yield server


@pytest.fixture
def mailbox() -> Iterator[Mailbox]:
    server = Mailbox()
    with serving(server):
        yield server


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """The servers of these tests answer, on a busy machine late."""
    monkeypatch.setattr(notify, "_TIMEOUT_S", 600.0)


def alarmed(home: Home, **settings: Any) -> Settings:
    """A series with one open alarm; gives the home's settings with these."""
    store.add(home.settings, home.database, "nightly", home.study(), Plan("day at 02:00"), actor=ADMIN)
    raise_fall(home.database, "n", NOW, "it <fell> & 5 %")
    return home.settings.model_copy(update=settings)


def test_an_alarm_is_posted_once_signed_and_in_the_form_of_slack(home: Home, hook: Hook) -> None:
    secret = home.folder / "secret"
    secret.write_text("a long secret\n")
    url = f"http://127.0.0.1:{hook.server_port}/hook"
    settings = alarmed(home, alarm_webhook=url, alarm_webhook_secret_file=secret)
    hook.statuses = [503]
    notify.deliver(settings, home.database, NOW)
    assert "503" in (store.alarms(home.database)[0].delivery_error or "")
    for minutes in (1, 2):
        notify.deliver(settings, home.database, NOW + timedelta(minutes=minutes))
    assert len(hook.posted) == 2
    headers, body = hook.posted[-1]
    signed = hmac.new(b"a long secret", headers[notify.SENT_AT].encode() + b"." + body, hashlib.sha256).hexdigest()
    assert headers[notify.SIGNATURE] == f"sha256={signed}"
    message = json.loads(body)
    assert message["text"] == "Drafthouse: alarm 1 of series nightly (fall)"
    assert "it &lt;fell&gt; &amp; 5 %" in message["blocks"][0]["text"]["text"]
    (alarm,) = store.alarms(home.database)
    assert (alarm.webhook_at, alarm.delivery_error) == (NOW + timedelta(minutes=1), None)


def test_the_form_of_teams_is_an_adaptive_card_with_a_link(home: Home, hook: Hook) -> None:
    url = f"http://127.0.0.1:{hook.server_port}"
    notify.deliver(alarmed(home, alarm_webhook=url, alarm_webhook_form="teams"), home.database, NOW)
    ((_, body),) = hook.posted
    (attachment,) = json.loads(body)["attachments"]
    assert attachment["contentType"] == "application/vnd.microsoft.card.adaptive"
    sentence = attachment["content"]["body"][1]
    assert sentence == {"type": "RichTextBlock", "inlines": [{"type": "TextRun", "text": "it <fell> & 5 %"}]}
    assert attachment["content"]["actions"][0]["url"].endswith("/series?series=nightly")


def test_an_alarm_is_mailed_once_to_everybody(home: Home, mailbox: Mailbox) -> None:
    address = f"smtp://127.0.0.1:{mailbox.server_address[1]}"
    settings = alarmed(home, alarm_smtp=address, alarm_email_to="ada@example.org, bob@example.org")
    notify.deliver(settings, home.database, NOW)
    notify.deliver(settings, home.database, NOW)
    (mail,) = mailbox.mails
    assert "Subject: Drafthouse: alarm 1 of series nightly (fall)" in mail
    assert "it <fell> & 5 %" in mail
    assert mailbox.recipients == ["<ada@example.org>", "<bob@example.org>"]


def test_a_silenced_series_sends_nothing(home: Home, hook: Hook) -> None:
    settings = alarmed(home, alarm_webhook=f"http://127.0.0.1:{hook.server_port}")
    store.silence(home.database, "nightly", NOW + timedelta(hours=1), actor=ADMIN)
    notify.deliver(settings, home.database, NOW)
    assert hook.posted == []
