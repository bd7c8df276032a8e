"""The pages of the login as HTML: small, without scripts, light and dark as the browser prefers."""

from __future__ import annotations

import re
from html import escape
from pathlib import Path
from string import Template
from urllib.parse import urlencode

_STATIC = Path(__file__).parents[2] / "webapp" / "static"
STYLE = (_STATIC / "login.css").read_text("utf-8")
_LOGO = (_STATIC / "icon.svg").read_text("utf-8")
_PAGE = Template(
    """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>$title · Drafthouse</title>
<style>$style</style>
</head>
<body>
<main>
<p class="lab">$logo<span>Drafthouse</span></p>
<h1>$title</h1>
$sentence$problem$content
</main>
</body>
</html>
"""
)


def page(title: str, content: str, *, sentence: str = "", problem: str = "") -> str:
    """Return a page of the login. `content` is HTML; everything else is text."""
    said = f"<p>{_with_code(sentence)}</p>\n" if sentence else ""
    wrong = f'<p class="problem" role="alert">{_with_code(problem[:1].upper() + problem[1:])}.</p>\n' if problem else ""
    return _PAGE.substitute(title=escape(title), style=STYLE, logo=_LOGO, sentence=said, problem=wrong, content=content)


def _with_code(text: str) -> str:
    """Escape the text, with commands between backticks as code."""
    return re.sub(r"`([^`]*)`", r"<code>\1</code>", escape(text))


def at_provider(then: str, provider: str) -> str:
    """Return the page that links to the provider: a form may not be sent to another site."""
    target = f"/login/oidc?{urlencode({'next': then})}"
    link = f'<a class="button" href="{escape(target)}">Continue at {escape(provider)}</a>'
    return page("Sign in", link, sentence="This lab asks your organisation who you are.")


def sign_in(then: str, name: str = "", problem: str = "") -> str:
    hidden = _hidden("next", then)
    fields = _field("Name", "name", "text", "username", value=name, focus=not name)
    fields += _field("Password", "password", "password", "current-password", focus=bool(name))
    return page("Sign in", _form(hidden + fields, "Sign in"), problem=problem)


def start_token(then: str, problem: str = "") -> str:
    sentence = (
        "This lab is open to whoever knows the token of its start: open the address that `drafthouse up` has "
        "printed, or type the token."
    )
    fields = _field("Token", "token", "password", "off", focus=True)
    return page("Sign in", _form(_hidden("next", then) + fields, "Open the lab"), sentence=sentence, problem=problem)


def choose_password(name: str, problem: str = "") -> str:
    fields = _hidden("name", name, autocomplete="username")
    fields += _field("New password", "password", "password", "new-password", focus=True)
    fields += _field("The same again", "again", "password", "new-password")
    sentence = f"You are {name}. The password needs at least 10 characters; this link works once."
    return page("Choose a password", _form(fields, "Set the password"), sentence=sentence, problem=problem)


def sign_out() -> str:
    return page("Sign out", _form("", "Sign out", action="/logout"), sentence="Do you want to sign out of this lab?")


def refused(problem: str, title: str = "This link does not work") -> str:
    return page(title, '<p><a href="/login">Sign in</a></p>', problem=problem)


def _form(fields: str, button: str, action: str = "") -> str:
    target = f' action="{action}"' if action else ""
    return f'<form method="post"{target}>\n{fields}<button type="submit">{escape(button)}</button>\n</form>'


def _field(label: str, name: str, kind: str, autocomplete: str, *, value: str = "", focus: bool = False) -> str:
    given = f' value="{escape(value)}"' if value else ""
    attributes = f'name="{name}" type="{kind}" autocomplete="{autocomplete}"{given} required'
    return f"<label>{escape(label)}<input {attributes}{' autofocus' if focus else ''}></label>\n"


def _hidden(name: str, value: str, autocomplete: str = "off") -> str:
    return f'<input type="hidden" name="{name}" value="{escape(value)}" autocomplete="{autocomplete}">\n'
