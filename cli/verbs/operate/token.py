"""`drafthouse token`: tokens with which programs use the API in a user's name."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated

import typer

from access import tokens
from access.local import local_actor
from access.tokens import Token
from cli.arguments import AsJson
from cli.lab import ready_database
from cli.output import print_json, print_literally, print_table, print_text
from lab.roles import role_of

app = typer.Typer(add_completion=False)


@app.callback()
def token() -> None:
    """Create, list and revoke the tokens with which programs use the API."""


@app.command()
def add(
    user: Annotated[str, typer.Argument(help="The user it acts for, as `drafthouse user list` shows it.")],
    label: Annotated[str, typer.Argument(help="What it is for, in a few words.")],
    *,
    role: Annotated[str, typer.Option(help="viewer, submitter or administrator.")] = "viewer",
    days: Annotated[
        int, typer.Option(min=1, max=tokens.LASTS_AT_MOST.days, help="Days until it expires.")
    ] = tokens.LASTS.days,
) -> None:
    """Create a token and print it; it is not shown again."""
    engine = ready_database()
    lasts = timedelta(days=days)
    made, secret = tokens.add_token(engine, user, label, role_of(role), lasts=lasts, actor=local_actor())
    print_text(
        f"token {made.token_id} of {user}, as a {made.role}, until {made.ends_at:%Y-%m-%d}. It is not shown again:"
    )
    print_literally(secret)


@app.command(name="list")
def list_tokens(*, as_json: AsJson = False) -> None:
    """List the tokens, including revoked and expired ones."""
    every = tokens.all_tokens(ready_database())
    if as_json:
        print_json([vars(one) for one in every])
    elif every:
        print_table(("token", "user", "for", "role", "ends", "last used"), [_row(one) for one in every])
    else:
        print_text("There are no tokens yet: `drafthouse token add USER LABEL` creates one.")


@app.command()
def revoke(token_id: Annotated[str, typer.Argument(help="As `drafthouse token list` shows it.")]) -> None:
    """Revoke a token at once."""
    ended = tokens.revoke(ready_database(), token_id, actor=local_actor())
    print_text(f"token {ended.token_id} of {ended.name} ({ended.label}) no longer works.")


def _row(one: Token) -> tuple[str, ...]:
    ends = "revoked" if one.revoked_at else f"{one.ends_at:%Y-%m-%d}"
    used = f"{one.last_used_at:%Y-%m-%d %H:%M}" if one.last_used_at else "never"
    return (one.token_id, one.name, one.label, one.role.value, ends, used)
