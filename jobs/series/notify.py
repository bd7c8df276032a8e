"""The ways of an alarm out of the lab: a signed webhook in the form of Slack or Teams, and e-mail.

A way is tried again until it has worked once, for a day. A kill between sending and storing that sends an alarm twice:
receivers tell by its number.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import smtplib
import ssl
import time
import urllib.request
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from email.message import EmailMessage
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import sqlalchemy as sa

from host.settings import Settings, with_password
from jobs.series import store
from jobs.series.store import Alarm
from lab.errors import SettingsError, UserError
from warehouse.app_db.schema import alarms as alarms_table

_TIMEOUT_S = 10.0
_TRIED_FOR = timedelta(days=1)
_THIS_MACHINE = ("localhost", "127.0.0.1", "::1")
#: Sends an alarm with the link to its series, or raises why it cannot.
Way = Callable[[Settings, Alarm, str], None]
SIGNATURE, SENT_AT = "X-Drafthouse-Signature", "X-Drafthouse-Timestamp"


def deliver(settings: Settings, database: sa.Engine, now: datetime) -> None:
    """Send what is not sent yet. An error is stored beside the alarm, and the alarm is tried again at the next call."""
    ways: dict[str, Way] = {}
    if settings.alarm_webhook:
        ways["webhook_at"] = post
    if settings.alarm_email_to:
        ways["email_at"] = mail
    waiting = [alarm for alarm in store.alarms(database) if alarm.is_open and now - alarm.raised_at < _TRIED_FOR]
    series = {each.series: each for each in store.all_series(database)}
    for alarm in waiting if ways else ():
        of = series.get(alarm.series)
        if of is None or of.is_silent(alarm.raised_at):
            continue
        due = {column: send for column, send in ways.items() if getattr(alarm, column) is None}
        if due and (result := _send(settings, alarm, due, now)) != {"delivery_error": alarm.delivery_error}:
            with database.begin() as connection:
                row = alarms_table.c.alarm_id == alarm.alarm_id
                connection.execute(alarms_table.update().where(row).values(result))


def _send(settings: Settings, alarm: Alarm, due: Mapping[str, Way], now: datetime) -> dict[str, Any]:
    """Send the alarm by these ways. Return what to store: when each has worked, and why the others have not."""
    sent, errors = dict[str, Any](), list[str]()
    for column, send in due.items():
        try:
            send(settings, alarm, f"{settings.public_url}/series?series={alarm.series}")
            sent[column] = now
        except (OSError, smtplib.SMTPException, UserError, ValueError) as error:
            errors.append(f"{column.removesuffix('_at')}: {error}")
    return sent | {"delivery_error": "; ".join(errors) or None}


def title(alarm: Alarm) -> str:
    return f"Drafthouse: alarm {alarm.alarm_id} of series {alarm.series} ({alarm.kind})"


def post(settings: Settings, alarm: Alarm, link: str) -> None:
    """Post the alarm. With a secret, the signature is the HMAC-SHA256 of the timestamp, a dot and the body."""
    body = json.dumps(slack(alarm, link) if settings.alarm_webhook_form == "slack" else teams(alarm, link)).encode()
    headers = {"Content-Type": "application/json"}
    if settings.alarm_webhook_secret_file is not None:
        sent_at = str(int(time.time()))
        secret = _secret(settings.alarm_webhook_secret_file)
        headers |= {SENT_AT: sent_at, SIGNATURE: f"sha256={signature(secret, sent_at, body)}"}
    if urlsplit(settings.alarm_webhook).scheme not in ("http", "https"):
        raise UserError("alarm_webhook must be an address that begins with https:// or http://")
    request = urllib.request.Request(settings.alarm_webhook, body, headers)  # noqa: S310 - checked above
    with urllib.request.urlopen(request, timeout=_TIMEOUT_S):  # noqa: S310 - likewise; raises for a status of 400 and up
        pass


def _secret(file: Path) -> bytes:
    try:
        return file.read_bytes().strip()
    except OSError as error:
        raise SettingsError(f"{file} cannot be read ({error.strerror}): write the webhook's secret into it") from None


def signature(secret: bytes, sent_at: str, body: bytes) -> str:
    return hmac.new(secret, sent_at.encode() + b"." + body, hashlib.sha256).hexdigest()


def slack(alarm: Alarm, link: str) -> dict[str, Any]:
    """Return the message as an incoming webhook of Slack takes it. Its three characters of markup are escaped."""
    text = alarm.sentence.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    words = f"*{title(alarm)}*\n{text}\n<{link}|Open the series>"
    return {"text": title(alarm), "blocks": [{"type": "section", "text": {"type": "mrkdwn", "text": words}}]}


def teams(alarm: Alarm, link: str) -> dict[str, Any]:
    """Return the message as a workflow of Teams takes it: an adaptive card."""
    blocks: list[dict[str, Any]] = [
        {"type": "TextBlock", "text": title(alarm), "weight": "Bolder", "wrap": True},
        # not a TextBlock, where names in it would be markup, such as links
        {"type": "RichTextBlock", "inlines": [{"type": "TextRun", "text": alarm.sentence}]},
    ]
    card = {
        "$schema": "http://adaptivecards.io/schemas/adaptive-card.json",
        "type": "AdaptiveCard",
        "version": "1.4",
        "body": blocks,
        "actions": [{"type": "Action.OpenUrl", "title": "Open the series", "url": link}],
    }
    attachment = {"contentType": "application/vnd.microsoft.card.adaptive", "contentUrl": None, "content": card}
    return {"type": "message", "attachments": [attachment]}


def mail(settings: Settings, alarm: Alarm, link: str) -> None:
    """Send the alarm by SMTP: smtp:// asks for TLS where the server offers it, smtps:// begins with it."""
    parts = urlsplit(with_password(settings.alarm_smtp, settings.alarm_smtp_password_file))
    if parts.scheme not in ("smtp", "smtps") or parts.hostname is None:
        raise UserError("alarm_smtp must be like smtp://user@mail.example.org:587 or smtps://user@mail.example.org")
    message = EmailMessage()
    message["Subject"], message["To"] = title(alarm), settings.alarm_email_to
    message["From"] = settings.alarm_email_from or settings.alarm_email_to.partition(",")[0]
    message["Message-ID"] = f"<alarm-{alarm.alarm_id}-{alarm.raised_at:%Y%m%d%H%M%S}@drafthouse>"
    message.set_content(f"{alarm.sentence}\n\n{link}\n")
    with _connection(parts.scheme, parts.hostname, parts.port) as server:
        server.ehlo()
        is_secret = parts.scheme == "smtps" or parts.hostname in _THIS_MACHINE
        if parts.scheme == "smtp" and server.has_extn("starttls"):
            server.starttls(context=ssl.create_default_context())
            is_secret = True
        if parts.username is not None:
            if not is_secret:
                raise UserError(f"{parts.hostname} offers no TLS, without which the password is not sent: use smtps://")
            server.login(unquote(parts.username), unquote(parts.password or ""))
        server.send_message(message)


def _connection(scheme: str, host: str, port: int | None) -> smtplib.SMTP:
    if scheme == "smtps":
        return smtplib.SMTP_SSL(host, port or 465, timeout=_TIMEOUT_S, context=ssl.create_default_context())
    return smtplib.SMTP(host, port or 587, timeout=_TIMEOUT_S)
