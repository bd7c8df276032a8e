"""The token of `web_login = "token"`: made at each start, printed with the page's address, in a private file."""

from __future__ import annotations

import secrets
from pathlib import Path

from host.files import write_whole
from host.settings import Settings
from lab.errors import UserError

#: The message to a visitor when there is no token to compare theirs with.
GONE = "this lab's token cannot be read, so nobody can sign in: whoever runs the lab has to start the page again"


class NoTokenError(UserError):
    """The file with the start's token is gone, or others can read it. It is not made again while the page runs:
    removing it ends all access by it.
    """


def renew(file: Path) -> str:
    """Write a new token to a file that nobody else can read at any moment."""
    token = secrets.token_urlsafe(32)
    write_whole(file, token + "\n", private=True)
    return token


def ensure(settings: Settings) -> None:
    """Make a token if the page needs one and `drafthouse up` has not made one for this start."""
    if settings.web_login == "token" and not settings.start_token_file.exists():
        renew(settings.start_token_file)
        print(f"The page's address with its token: {address(settings)}", flush=True)


def address(settings: Settings) -> str:
    """Return the page's address for a browser that has not signed in yet."""
    if settings.web_login != "token":
        return settings.public_url
    return f"{settings.public_url}/?token={read(settings.start_token_file)}"


def read(file: Path) -> str:
    """Return the token. Raises NoTokenError if there is none, or others can read it."""
    try:
        if file.stat().st_mode & 0o077:
            raise NoTokenError(f"{file} can be read by others: remove it and start the page again")
        token = file.read_text(encoding="ascii").strip()
    except FileNotFoundError:
        raise NoTokenError(f"{file} is gone: start the page again") from None
    except (OSError, UnicodeDecodeError) as error:
        raise NoTokenError(
            f"{file} cannot be read ({type(error).__name__}): remove it and start the page again"
        ) from None
    if not token:  # else every empty answer would match it
        raise NoTokenError(f"{file} is empty: remove it and start the page again")
    return token
