"""Signing in at an OpenID provider: the authorization code flow with PKCE, and the claims about the visitor.

The provider identifies the visitor; this lab's users, or a claim, determine their role.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import http.client
import json
import secrets
import stat
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

from joserfc import jwt
from joserfc.errors import JoseError
from joserfc.jwk import KeySet
from pydantic import BaseModel, Field, ValidationError

from access.web.hosts import is_loopback
from host.settings import Settings
from lab.errors import AccessError, SettingsError
from lab.roles import Role

BACK = "/login/oidc/back"
_ALGORITHMS = ["RS256", "RS384", "RS512", "PS256", "ES256", "ES384", "EdDSA"]
_MOST_BYTES, _TIMEOUT_S, _KNOWN_FOR_S = 2**20, 10.0, 3600.0
_FAILED = "signing in at the provider did not work"


def _secret() -> str:
    return secrets.token_urlsafe(48)


class Attempt(BaseModel):
    """The state in a browser's cookie while its user is at the provider, by which the response is recognised."""

    then: str
    state: str = Field(default_factory=_secret)
    nonce: str = Field(default_factory=_secret)
    verifier: str = Field(default_factory=_secret)

    def packed(self) -> str:
        return base64.urlsafe_b64encode(self.model_dump_json().encode()).decode()

    @classmethod
    def unpacked(cls, text: str) -> Attempt:
        """Read what `packed` has made. Raises AccessError for anything else."""
        try:
            return cls.model_validate_json(base64.urlsafe_b64decode(text))
        except ValueError:
            raise AccessError(f"{_FAILED}: it took too long, or was started in another browser. Try again") from None


class Description(BaseModel):
    """A provider's own description of itself, as far as it is used."""

    issuer: str
    authorization_endpoint: str
    token_endpoint: str
    jwks_uri: str
    userinfo_endpoint: str | None = None
    token_endpoint_auth_methods_supported: list[str] = ["client_secret_basic"]


class Provider:
    """An OpenID provider. Safe to use from any thread."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._lock = threading.Lock()
        self._read_s = float("-inf")
        self._description: Description | None = None
        self._keys: dict[str, Any] = {}

    def address(self, attempt: Attempt) -> str:
        """Return where the browser goes to sign in. Raises AccessError if the provider does not answer."""
        challenge = hashlib.sha256(attempt.verifier.encode()).digest()
        query = {
            "response_type": "code",
            "client_id": self._settings.web_oidc_client_id,
            "redirect_uri": self._back,
            "scope": "openid email profile",
            "state": attempt.state,
            "nonce": attempt.nonce,
            "code_challenge": base64.urlsafe_b64encode(challenge).rstrip(b"=").decode(),
            "code_challenge_method": "S256",
        }
        return f"{self._described().authorization_endpoint}?{urlencode(query)}"

    def claims(self, attempt: Attempt, query: Mapping[str, str]) -> dict[str, Any]:
        """Return the provider's claims of the visitor who came back with this query. Raises AccessError."""
        if not hmac.compare_digest(query.get("state", "").encode(), attempt.state.encode()):
            raise AccessError(f"{_FAILED}: the answer belongs to another attempt. Try again")
        if "code" not in query:
            raise AccessError(f"{_FAILED}: the provider has refused it. Try again, or ask an administrator")
        form = {
            "grant_type": "authorization_code",
            "code": query["code"],
            "redirect_uri": self._back,
            "code_verifier": attempt.verifier,
        }
        answer = self._exchanged(form)
        claims = self._verified(str(answer.get("id_token", "")), attempt.nonce)
        needed = {self._settings.web_oidc_name_claim, self._settings.web_oidc_role_claim} - {""}
        if needed <= claims.keys():
            return claims
        return self._more_claims(claims, str(answer.get("access_token", "")))

    def _exchanged(self, form: dict[str, str]) -> dict[str, Any]:
        """Exchange a code for tokens; the client's secret goes into a header, or the form if the provider demands."""
        described, client = self._described(), self._settings.web_oidc_client_id
        secret = client_secret(self._settings)
        if "client_secret_basic" not in described.token_endpoint_auth_methods_supported:
            return _ask(described.token_endpoint, form | {"client_id": client, "client_secret": secret})
        pair = f"{quote(client, safe='')}:{quote(secret, safe='')}"
        return _ask(described.token_endpoint, form, f"Basic {base64.b64encode(pair.encode()).decode()}")

    @property
    def _back(self) -> str:
        return f"{self._settings.public_url}{BACK}"

    def _more_claims(self, claims: dict[str, Any], access_token: str) -> dict[str, Any]:
        """Add the claims that the provider gives only at its userinfo endpoint."""
        endpoint = self._described().userinfo_endpoint
        if endpoint is None:
            return claims
        more = _ask(endpoint, authorization=f"Bearer {access_token}")
        return {**more, **claims} if more.get("sub") == claims["sub"] else claims

    def _verified(self, token: str, nonce: str) -> dict[str, Any]:
        """Return the claims of a token that the provider has signed for this lab and this attempt."""
        wanted = jwt.JWTClaimsRegistry(
            leeway=60,
            iss={"essential": True, "value": self._settings.web_oidc_issuer},
            aud={"essential": True, "value": self._settings.web_oidc_client_id},
            nonce={"essential": True, "value": nonce},
            exp={"essential": True},
            sub={"essential": True},
        )
        self._described()
        keys: Any = self._keys
        try:
            claims: dict[str, Any] = jwt.decode(token, KeySet.import_key_set(keys), _ALGORITHMS).claims
            wanted.validate(claims)
            self._refuse_another_party(claims)
        except (JoseError, ValueError, LookupError, TypeError) as error:
            with self._lock:
                self._read_s = float("-inf")  # the provider may have changed its keys
            raise AccessError(f"{_FAILED}: its answer is not valid ({type(error).__name__}). Try again") from None
        return claims

    def _refuse_another_party(self, claims: Mapping[str, Any]) -> None:
        """Raise AccessError for a token that was made for another client, which names this one beside itself."""
        audience, party = claims["aud"], claims.get("azp")
        is_of_many = isinstance(audience, list) and len(audience) > 1
        if (party is not None or is_of_many) and party != self._settings.web_oidc_client_id:
            raise AccessError(f"{_FAILED}: its answer is meant for another client. Try again")

    def _described(self) -> Description:
        with self._lock:
            if self._description is None or time.monotonic() - self._read_s > _KNOWN_FOR_S:
                issuer = self._settings.web_oidc_issuer
                description = _description(_ask(f"{issuer.rstrip('/')}/.well-known/openid-configuration"))
                if description.issuer != issuer:
                    raise AccessError(f"{_FAILED}: the provider calls itself {description.issuer}")
                self._keys = _ask(description.jwks_uri)
                self._description, self._read_s = description, time.monotonic()
            return self._description


def _description(answer: dict[str, Any]) -> Description:
    try:
        return Description.model_validate(answer)
    except ValidationError as error:
        field = error.errors()[0]["loc"][0]
        raise AccessError(f"{_FAILED}: the provider's description of itself has no usable {field}") from None


class _SameOrigin(urllib.request.HTTPRedirectHandler):
    """Follows no redirect to another server: the client's secret, a code or a visitor's token would go with it."""

    def redirect_request(self, req: urllib.request.Request, *answer: Any) -> urllib.request.Request | None:
        to, asked = urlsplit(str(answer[-1])), urlsplit(req.full_url)
        if (to.scheme, to.netloc) != (asked.scheme, asked.netloc):
            answer[0].close()
            raise AccessError(
                f"{_FAILED}: the provider redirects from {asked.netloc} to {to.netloc}: see its addresses"
            )
        return super().redirect_request(req, *answer)


def name_in(settings: Settings, claims: Mapping[str, Any]) -> str:
    """Return the visitor's name in this lab. Raises AccessError without one, and for an unverified e-mail address."""
    claim = settings.web_oidc_name_claim
    name = claims.get(claim)
    if not isinstance(name, str) or not name:
        raise AccessError(f"{_FAILED}: the provider does not report your {claim}")
    if claim == "email" and claims.get("email_verified") is not True:
        raise AccessError(f"{_FAILED}: the provider has not verified that {name} is your address")
    return name.lower() if claim == "email" else name


def role_in(settings: Settings, claims: Mapping[str, Any]) -> Role | None:
    """Return the highest role that the claim names, else that of new users; None if this lab manages roles itself.

    Raises AccessError if the claim names none and new users are refused: nobody keeps a role that the provider took.
    """
    if not (claim := settings.web_oidc_role_claim):
        return None
    given = claims.get(claim)
    named = [given] if isinstance(given, str) else given if isinstance(given, list) else []
    role = max(
        (role for role in Role if role.value in named), key=lambda role: role.rank, default=role_of_new(settings)
    )
    if role is None:
        raise AccessError(f"the provider gives you no role in this lab: its claim {claim} names none")
    return role


def role_of_new(settings: Settings) -> Role | None:
    """Return the role of the provider's users who are new here; None if they are refused."""
    new = settings.web_oidc_new_users
    return None if new == "refused" else Role(new)


def refuse_incomplete(settings: Settings) -> None:
    """Raise SettingsError unless the settings of the provider are complete."""
    if settings.web_login != "oidc":
        return
    missing = [name for name in ("web_oidc_issuer", "web_oidc_client_id") if not getattr(settings, name)]
    if missing:
        raise SettingsError(
            f"DRAFTHOUSE_WEB_LOGIN=oidc needs {' and '.join(f'DRAFTHOUSE_{n.upper()}' for n in missing)}"
        )
    issuer = urlsplit(settings.web_oidc_issuer)
    if issuer.scheme != "https" and not (issuer.scheme == "http" and is_loopback(issuer.hostname or "")):
        raise SettingsError(f"DRAFTHOUSE_WEB_OIDC_ISSUER is {settings.web_oidc_issuer!r}: it must begin with https://")
    client_secret(settings)


def client_secret(settings: Settings) -> str:
    """Return the client's secret. Raises SettingsError if its file cannot be read, or others can read it too."""
    file = settings.web_oidc_client_secret_file
    if file is None:
        raise SettingsError("DRAFTHOUSE_WEB_LOGIN=oidc needs DRAFTHOUSE_WEB_OIDC_CLIENT_SECRET_FILE")
    try:
        if stat.S_IMODE(file.stat().st_mode) & 0o077:
            raise SettingsError(f"{file} can be read by others: run `chmod 600 {file}`")
        return file.read_text(encoding="utf-8").strip()
    except OSError as error:
        raise SettingsError(f"{file} cannot be read ({error.strerror}): write the client's secret into it") from None


def _read(answer: http.client.HTTPResponse) -> bytes:
    """Read the beginning of a response, within one timeout: that of the connection applies to each piece alone."""
    until_s, body = time.monotonic() + _TIMEOUT_S, bytearray()
    while len(body) < _MOST_BYTES and (piece := answer.read1(_MOST_BYTES - len(body))):
        body += piece
        if time.monotonic() > until_s:
            raise TimeoutError
    return bytes(body)


def _ask(url: str, form: Mapping[str, str] | None = None, authorization: str = "") -> dict[str, Any]:
    """Return the provider's JSON object. Raises AccessError for any other response."""
    headers = {"Accept": "application/json"} | ({"Authorization": authorization} if authorization else {})
    body = None if form is None else urlencode(form).encode()
    try:
        request = urllib.request.Request(url, body, headers)  # noqa: S310 - the administrator's own setting
        with urllib.request.build_opener(_SameOrigin).open(request, timeout=_TIMEOUT_S) as answer:
            value = json.loads(_read(answer))
    except (OSError, ValueError, RecursionError, http.client.HTTPException) as error:
        code = ""
        if isinstance(error, urllib.error.HTTPError):
            error.close()  # its connection would stay open for as long as the exception is known
            code = f" ({error.code})"
        raise AccessError(f"{_FAILED}: the provider does not answer{code}. Try again in a moment") from None
    if not isinstance(value, dict):
        raise AccessError(f"{_FAILED}: the provider's answer is not understood")
    return value
