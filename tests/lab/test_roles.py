"""Three roles: what each may change, and the sentence for what it may not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lab.errors import AccessError
from lab.roles import RULES, Actor, Change, Role, may, may_any, require, role_of
from tests.actors import ADMIN, SUBMITTER, VIEWER

#: (change, whose) -> the roles that may make it. "own" is the actor's, or new; "other" somebody else's, or nobody's.
ADMINISTRATORS = {Role.ADMINISTRATOR}
SUBMITTERS, ALL = {*ADMINISTRATORS, Role.SUBMITTER}, set(Role)
ALLOWED: dict[Change, tuple[set[Role], set[Role]]] = {
    Change.SUBMIT: (SUBMITTERS, ADMINISTRATORS),
    Change.CANCEL: (SUBMITTERS, ADMINISTRATORS),
    Change.RETRY: (SUBMITTERS, ADMINISTRATORS),
    Change.JUDGE: (SUBMITTERS, SUBMITTERS),
    Change.CURATE: (SUBMITTERS, ADMINISTRATORS),
    Change.ORDER: (ADMINISTRATORS, ADMINISTRATORS),
    Change.SERIES: (SUBMITTERS, ADMINISTRATORS),
    Change.PRICES: (ADMINISTRATORS, ADMINISTRATORS),
    Change.DATASETS: (ADMINISTRATORS, ADMINISTRATORS),
    Change.IMPORT: (SUBMITTERS, ADMINISTRATORS),
    Change.DASHBOARD: (ALL, ADMINISTRATORS),
    Change.NAMED_VIEW: (ALL, ADMINISTRATORS),
    Change.HOSTS: (ADMINISTRATORS, ADMINISTRATORS),
    Change.USERS: (ADMINISTRATORS, ADMINISTRATORS),
    Change.TOKENS: (ALL, ADMINISTRATORS),
    Change.SHARE: (ALL, ADMINISTRATORS),
    Change.AUDIT: (ADMINISTRATORS, ADMINISTRATORS),
}


def test_every_change_has_a_rule_and_stands_in_this_table() -> None:
    assert set(RULES) == set(Change) == set(ALLOWED)


@pytest.mark.parametrize("change", Change)
def test_each_role_may_do_what_the_table_says(change: Change) -> None:
    own, others = ALLOWED[change]
    people = {role: Actor("me", role) for role in Role}
    assert {role for role, actor in people.items() if may(actor, change, "me")} == own
    assert {role for role, actor in people.items() if may(actor, change, is_new=True)} == own
    assert {role for role, actor in people.items() if may_any(actor, change)} == own
    assert {role for role, actor in people.items() if may(actor, change, "you")} == others
    assert {role for role, actor in people.items() if may(actor, change, None)} == others


def test_a_refusal_names_the_command_that_changes_the_role() -> None:
    with pytest.raises(AccessError) as refused:
        require(VIEWER, Change.SUBMIT, is_new=True)
    assert str(refused.value) == (
        "you may not submit a study: vera is a viewer, and this takes a submitter. "
        "An administrator can run `drafthouse user role vera submitter`"
    )
    with pytest.raises(AccessError, match="vera is a viewer with this token, and this takes a submitter"):
        require(replace(VIEWER, via="api"), Change.SUBMIT, is_new=True)
    with pytest.raises(AccessError, match="sam is a submitter, and this takes an administrator"):
        require(SUBMITTER, Change.PRICES)


@pytest.mark.parametrize(
    ("owner", "words"), [("sue", "it belongs to sue"), (None, "it belongs to nobody that is known")]
)
def test_what_belongs_to_another_is_refused_with_its_owner(owner: str | None, words: str) -> None:
    with pytest.raises(AccessError) as refused:
        require(SUBMITTER, Change.CANCEL, owner)
    assert str(refused.value) == f"you may not cancel a job that is not yours: {words}; ask an administrator"
    require(ADMIN, Change.CANCEL, owner)
    require(replace(SUBMITTER, name="sue"), Change.CANCEL, "sue")


def test_a_word_that_is_no_role_is_refused_with_those_that_are() -> None:
    assert role_of("viewer") is Role.VIEWER
    with pytest.raises(AccessError, match=r"^there is no role 'root': use viewer, submitter, administrator$"):
        role_of("root")
