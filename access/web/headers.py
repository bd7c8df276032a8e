"""Headers with which browsers guard the page: what may be loaded into it, and who may show it in a frame."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterable

from host.settings import Settings

Headers = list[tuple[bytes, bytes]]
_INLINE_SCRIPT = re.compile(r"<script>(.*?)</script>", re.DOTALL)
_YEAR_S = 365 * 24 * 3600


def script_digests(html: str) -> list[str]:
    """Return the digests of the HTML's own scripts, in the form of a content security policy."""
    found = (hashlib.sha256(script.encode()).digest() for script in _INLINE_SCRIPT.findall(html))
    return [f"'sha256-{base64.b64encode(digest).decode()}'" for digest in found]


def page_headers(settings: Settings, host: str, scripts: Iterable[str]) -> Headers:
    """Return the headers of all responses to a request for `host`, a name that was checked.

    Streamlit makes its style sheets in the browser; its charts interpret their expressions, so no code is made there.
    """
    policy = {
        "default-src": "'self'",
        "script-src": " ".join(["'self'", *scripts]),
        "style-src": "'self' 'unsafe-inline'",
        "img-src": "'self' data: blob:",
        "font-src": "'self' data:",
        "media-src": "'self' data: blob:",
        "connect-src": f"'self' ws://{host} wss://{host}",
        "worker-src": "'self' blob:",
        "frame-src": "'self'",
        "object-src": "'none'",
        "base-uri": "'self'",
        "form-action": "'self'",
        "frame-ancestors": " ".join(["'self'", *frame_origins(settings)]),
    }
    return _headers(settings, policy)


def login_headers(settings: Settings, style: str) -> Headers:
    """Return the headers of the login's pages: they load nothing and no page may frame them."""
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    policy = {
        "default-src": "'none'",
        "style-src": f"'sha256-{digest}'",
        "form-action": "'self'",
        "base-uri": "'none'",
        "frame-ancestors": "'none'",
    }
    return [*_headers(settings, policy), (b"cache-control", b"no-store")]


def shared_headers(settings: Settings, scripts: Iterable[str], *, embed: bool) -> Headers:
    """Return the headers of a shared link's page: one file that loads nothing.

    `sandbox` removes its origin, so that no script in it can ever act for a visitor who has signed in.
    Its address is a secret, so it is sent as referrer to nobody.
    """
    policy = {
        "default-src": "'none'",
        "script-src": " ".join(scripts),
        "style-src": "'unsafe-inline'",
        "img-src": "data: blob:",
        "base-uri": "'none'",
        "form-action": "'none'",
        "frame-ancestors": " ".join(["'self'", *frame_origins(settings)]) if embed else "'none'",
        "sandbox": "allow-scripts allow-downloads allow-modals",
    }
    headers = dict(_headers(settings, policy)) | {
        b"referrer-policy": b"no-referrer",
        b"cache-control": b"private, no-cache",
        b"x-robots-tag": b"noindex, nofollow",
    }
    return list(headers.items())


def script_headers(settings: Settings) -> Headers:
    """Return the headers of a script, a style sheet or a font.

    Browsers apply the others to documents; with a hundred scripts they take half a second at 1.6 Mbit/s.
    """
    return _encoded(settings, {})


def _headers(settings: Settings, policy: dict[str, str]) -> Headers:
    text = "; ".join(f"{name} {sources}" for name, sources in policy.items())
    fixed = {
        "content-security-policy": text,
        "referrer-policy": "same-origin",
        "cross-origin-opener-policy": "same-origin",
        "permissions-policy": "camera=(), geolocation=(), microphone=()",
    }
    return _encoded(settings, fixed)


def _encoded(settings: Settings, headers: dict[str, str]) -> Headers:
    given = {**headers, "x-content-type-options": "nosniff"}
    if settings.web_https:
        given["strict-transport-security"] = f"max-age={_YEAR_S}"
    return [(name.encode(), value.encode("latin-1")) for name, value in given.items()]


def frame_origins(settings: Settings) -> tuple[str, ...]:
    """Return the other sites whose pages may show this one in a frame."""
    return tuple(origin.strip() for origin in settings.web_frame_ancestors.split(",") if origin.strip())
