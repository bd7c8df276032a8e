"""`drafthouse user`: who may open the page, and with which role."""

from __future__ import annotations

from typing import Annotated

import typer

from access import accounts
from access.local import local_actor
from cli.arguments import AsJson
from cli.lab import ready_database, ready_settings
from cli.output import print_json, print_literally, print_table, print_text
from lab.roles import Role, role_of

app = typer.Typer(add_completion=False)

Name = Annotated[str, typer.Argument(help="As `drafthouse user list` shows it.")]
RoleName = Annotated[str, typer.Argument(metavar="ROLE", help="viewer, submitter or administrator.")]


@app.callback()
def user() -> None:
    """Manage who may open the page, and whether they view, submit or administer."""


@app.command()
def add(
    name: Annotated[str, typer.Argument(help="A short name, or an e-mail address.")],
    *,
    role: Annotated[str, typer.Option(help="viewer, submitter or administrator.")] = Role.VIEWER.value,
) -> None:
    """Add a user, and print the link with which they choose a password."""
    chosen = role_of(role)
    accounts.add_user(ready_database(), name, chosen, actor=local_actor())
    print_text(f"{name} is {_a(chosen)} of this lab.")
    _print_link(name)


@app.command()
def link(name: Name) -> None:
    """Print a new link with which a user chooses a new password."""
    _print_link(name)


@app.command(name="list")
def list_users(*, as_json: AsJson = False) -> None:
    """List the users."""
    users = accounts.all_users(ready_database())
    if as_json:
        print_json([vars(user) for user in users])
    elif users:
        rows = [(user.name, user.role.value, _state(user), f"{user.created_at:%Y-%m-%d}") for user in users]
        print_table(("name", "role", "state", "added"), rows)
    else:
        print_text("There are no users yet: `drafthouse user add NAME --role administrator` adds the first one.")


@app.command()
def role(name: Name, new: RoleName) -> None:
    """Give a user another role, from their next click on."""
    chosen = role_of(new)
    accounts.set_role(ready_database(), name, chosen, actor=local_actor())
    print_text(f"{name} is {_a(chosen)} now")


@app.command()
def disable(name: Name) -> None:
    """Sign a user out everywhere and refuse further sign-ins; their studies and dashboards stay."""
    accounts.disable(ready_database(), name, actor=local_actor())
    print_text(f"{name} is disabled")


@app.command()
def enable(name: Name) -> None:
    """Let a disabled user sign in again, with the same password."""
    accounts.enable(ready_database(), name, actor=local_actor())
    print_text(f"{name} may sign in again")


def _print_link(name: str) -> None:
    settings = ready_settings()
    if settings.web_login == "oidc":
        print_text("They sign in at the OpenID provider.")
        return
    secret = accounts.new_link(ready_database(), name, actor=local_actor())
    print_text(f"Their link, which works once within {accounts.LINK_LASTS.days} days:")
    print_literally(f"  {settings.public_url}/login/link/{secret}")
    if settings.web_login != "accounts":
        print_text("The page asks for passwords when DRAFTHOUSE_WEB_LOGIN is accounts.")


def _state(user: accounts.User) -> str:
    if user.disabled_at is not None:
        return f"disabled on {user.disabled_at:%Y-%m-%d}"
    return "may sign in" if user.has_password else "has no password yet"


def _a(role: Role) -> str:
    return f"an {role}" if role is Role.ADMINISTRATOR else f"a {role}"
