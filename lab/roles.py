"""Who may do what: three roles, the changes in a lab, and the least role for each. Pure: no database.

An `Actor` is whoever makes a change. The functions that store a change call `require` first; pages and
commands call `may` only to hide what would be refused.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

from lab.errors import AccessError

#: How an actor came in.
Via = Literal["page", "command", "api"]


class Role(StrEnum):
    """From the least to the most; each may do what those before it may."""

    VIEWER = "viewer"
    SUBMITTER = "submitter"
    ADMINISTRATOR = "administrator"

    @property
    def rank(self) -> int:
        return list(Role).index(self)


@dataclass(frozen=True)
class Actor:
    """A person, or a program with a token of theirs. `name` owns what the actor makes."""

    name: str
    role: Role
    via: Via = "page"


@dataclass(frozen=True)
class Rule:
    """The least roles that may make a change: to what is the actor's own or new, and to what is another's or nobody's.

    `words` finish the sentence "you may not ...".
    """

    words: str
    own: Role
    others: Role = Role.ADMINISTRATOR


class Change(StrEnum):
    """What can be changed; the values are stored in the audit table."""

    SUBMIT = "job.submit"
    CANCEL = "job.cancel"
    RETRY = "job.retry"
    JUDGE = "study.judge"
    CURATE = "study.change"
    ORDER = "job.order"
    SERIES = "series.change"
    PRICES = "price.change"
    DATASETS = "dataset.change"
    IMPORT = "import.add"
    DASHBOARD = "dashboard.change"
    NAMED_VIEW = "view.name"
    HOSTS = "host.change"
    USERS = "user.change"
    TOKENS = "token.change"
    SHARE = "share.change"
    AUDIT = "audit.read"


RULES: dict[Change, Rule] = {
    Change.SUBMIT: Rule("submit a study", Role.SUBMITTER),
    Change.CANCEL: Rule("cancel a job", Role.SUBMITTER),
    Change.RETRY: Rule("run a job again", Role.SUBMITTER),
    Change.JUDGE: Rule("judge a study again", Role.SUBMITTER, Role.SUBMITTER),
    Change.CURATE: Rule("rename, tag, hide or delete a study", Role.SUBMITTER),
    Change.ORDER: Rule("move a job forward in the queue", Role.ADMINISTRATOR),
    Change.SERIES: Rule("change a series", Role.SUBMITTER),
    Change.PRICES: Rule("change the price book", Role.ADMINISTRATOR),
    Change.DATASETS: Rule("add or remove datasets", Role.ADMINISTRATOR),
    Change.IMPORT: Rule("import results", Role.SUBMITTER),
    Change.DASHBOARD: Rule("change a dashboard", Role.VIEWER),
    Change.NAMED_VIEW: Rule("change a saved query", Role.VIEWER),
    Change.HOSTS: Rule("enroll, drain or mend a host", Role.ADMINISTRATOR),
    Change.USERS: Rule("manage users", Role.ADMINISTRATOR),
    Change.TOKENS: Rule("make or end a token", Role.VIEWER),
    Change.SHARE: Rule("make or end a shared link", Role.VIEWER),
    Change.AUDIT: Rule("read the audit table", Role.ADMINISTRATOR),
}


def sentence(role: Role) -> str:
    """Say what a role may do beyond those before it, like `submit a study, cancel a job, of their own`."""
    added = ", ".join(rule.words for rule in RULES.values() if rule.own is role)
    if any(rule.others is role and rule.own is not role for rule in RULES.values()):
        return f"{added}; and change what belongs to others"
    return f"{added}, of their own"


def may(actor: Actor, change: Change, owner: str | None = None, *, is_new: bool = False) -> bool:
    """Return whether the actor may make this change to what `owner` owns (None: nobody), or to something new."""
    rule = RULES[change]
    least = rule.own if is_new or owner == actor.name else rule.others
    return actor.role.rank >= least.rank


def may_any(actor: Actor, change: Change) -> bool:
    """Return whether the actor may make this change to anything at all."""
    return may(actor, change, is_new=True)


def require(actor: Actor, change: Change, owner: str | None = None, *, is_new: bool = False) -> None:
    """Raise AccessError, a sentence, if the actor may not make this change."""
    if may(actor, change, owner, is_new=is_new):
        return
    rule = RULES[change]
    if actor.role.rank >= rule.own.rank:
        whose = "nobody that is known" if owner is None else owner
        raise AccessError(f"you may not {rule.words} that is not yours: it belongs to {whose}; ask an administrator")
    article = "an" if rule.own is Role.ADMINISTRATOR else "a"
    here = " with this token" if actor.via == "api" else ""
    raise AccessError(
        f"you may not {rule.words}: {actor.name} is a {actor.role}{here}, and this takes {article} {rule.own}. "
        f"An administrator can run `drafthouse user role {actor.name} {rule.own}`"
    )


def role_of(text: str) -> Role:
    """Return the role of this name. Raises AccessError if there is none."""
    try:
        return Role(text)
    except ValueError:
        raise AccessError(f"there is no role {text!r}: use {', '.join(Role)}") from None
