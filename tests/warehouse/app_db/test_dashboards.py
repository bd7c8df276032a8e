"""Dashboards keep their pins in order, and simultaneous changes of two people are both kept."""

from __future__ import annotations

import threading
from dataclasses import replace
from datetime import UTC, datetime

import pytest
import sqlalchemy as sa

from lab.errors import UserError
from tests.actors import ADMIN
from warehouse.app_db import dashboards, pins
from warehouse.app_db.pins import PinnedFigure

MOMENT = datetime(2026, 11, 21, 4, 0, tzinfo=UTC)
SPEEDUP = PinnedFigure("results", {"job": ("j",)}, "speedup")
ACCEPTANCE = PinnedFigure("results", {"job": ("j",)}, "acceptance", MOMENT)
QUERY = PinnedFigure("sql", {"query": ("0123456789ab",)}, "table")


@pytest.fixture
def board(engine: sa.Engine) -> str:
    return dashboards.create(engine, "Monday", actor=ADMIN)


def figures(engine: sa.Engine, board: str) -> list[str]:
    return [pin.shown.figure for pin in pins.pins_on(engine, board)]


def test_creating_a_dashboard_twice_gives_one_and_renaming_keeps_its_id(engine: sa.Engine, board: str) -> None:
    assert dashboards.create(engine, "Monday", actor=ADMIN) == board
    dashboards.rename(engine, board, "Tuesday", actor=ADMIN)
    dashboards.rename(engine, board, "Tuesday", actor=ADMIN)
    assert [dashboard.name for dashboard in dashboards.all_dashboards(engine)] == ["Tuesday"]
    assert dashboards.create(engine, "Monday", actor=ADMIN) != board
    with pytest.raises(UserError, match="already: choose another name"):
        dashboards.rename(engine, board, "Monday", actor=ADMIN)


@pytest.mark.parametrize("name", ["", " x", "x ", "x" * 81, "a\nb"])
def test_an_invalid_name_is_refused(engine: sa.Engine, name: str) -> None:
    with pytest.raises(UserError, match="a name has 1 to 80 characters"):
        dashboards.create(engine, name, actor=ADMIN)


def test_pins_read_back_equal_and_pinning_again_adds_none(engine: sa.Engine, board: str) -> None:
    for shown in (SPEEDUP, ACCEPTANCE, SPEEDUP):
        pins.add(engine, board, shown, f"of {shown.figure}", actor=ADMIN)
    first, second = pins.pins_on(engine, board)
    assert (first.shown.page, first.shown.parameters, first.shown.as_of) == ("results", {"job": ["j"]}, None)
    assert (second.shown.figure, second.shown.as_of, second.caption) == ("acceptance", MOMENT, "of acceptance")
    (listed,) = dashboards.all_dashboards(engine)
    assert listed.pins == 2
    assert listed.changed_at > listed.created_at


def test_pins_are_moved_and_moving_again_changes_nothing(engine: sa.Engine, board: str) -> None:
    first, _, third = (pins.add(engine, board, shown, "", actor=ADMIN) for shown in (SPEEDUP, ACCEPTANCE, QUERY))
    for _ in range(2):
        pins.move(engine, third, first, actor=ADMIN)
        assert figures(engine, board) == ["table", "speedup", "acceptance"]
    pins.move(engine, third, None, actor=ADMIN)
    assert figures(engine, board) == ["speedup", "acceptance", "table"]


def test_a_width_stays_with_its_pin_and_with_the_pins_copy(engine: sa.Engine, board: str) -> None:
    first, _ = (pins.add(engine, board, shown, "", actor=ADMIN) for shown in (SPEEDUP, ACCEPTANCE))
    pins.resize(engine, first, is_wide=True, actor=ADMIN)
    pins.move(engine, first, None, actor=ADMIN)
    copy = dashboards.duplicate(engine, board, "Copy", actor=ADMIN)
    assert [[pin.is_wide for pin in pins.pins_on(engine, which)] for which in (board, copy)] == [[None, True]] * 2
    pins.resize(engine, first, is_wide=False, actor=ADMIN)
    assert [pin.is_wide for pin in pins.pins_on(engine, board)] == [None, False]


def test_a_restored_pin_returns_to_its_position(engine: sa.Engine, board: str) -> None:
    first, _ = (pins.add(engine, board, shown, "", actor=ADMIN) for shown in (SPEEDUP, ACCEPTANCE))
    for _ in range(2):
        pins.remove(engine, first, actor=ADMIN)
    assert figures(engine, board) == ["acceptance"]
    for _ in range(2):
        pins.restore(engine, first, actor=ADMIN)
    assert figures(engine, board) == ["speedup", "acceptance"]


def test_removed_pins_are_forgotten_but_the_last_ones(
    engine: sa.Engine, board: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pins, "MAX_PINS", 2)
    ids = []
    for figure in ("a", "b", "c"):
        ids.append(pins.add(engine, board, replace(SPEEDUP, figure=figure), "", actor=ADMIN))
        pins.remove(engine, ids[-1], actor=ADMIN)
    for pin_id in ids:
        pins.restore(engine, pin_id, actor=ADMIN)
    assert figures(engine, board) == ["b", "c"]


def test_a_pin_holds_no_link_of_any_length(engine: sa.Engine, board: str) -> None:
    long = PinnedFigure("results", {"job": ("x" * pins.MAX_PARAMETERS_LENGTH,)}, "speedup")
    with pytest.raises(UserError, match="a pin can hold 20,000 at most"):
        pins.add(engine, board, long, "", actor=ADMIN)


def test_caption_and_moment_can_be_changed_but_not_of_a_removed_pin(engine: sa.Engine, board: str) -> None:
    first = pins.add(engine, board, SPEEDUP, "", actor=ADMIN)
    pins.change(engine, first, "why *this* matters", MOMENT, actor=ADMIN)
    (pin,) = pins.pins_on(engine, board)
    assert (pin.caption, pin.shown.as_of) == ("why *this* matters", MOMENT)
    with pytest.raises(UserError, match="2,000 characters at most"):
        pins.change(engine, first, "x" * 2001, None, actor=ADMIN)
    pins.remove(engine, first, actor=ADMIN)
    with pytest.raises(UserError, match="removed meanwhile"):
        pins.change(engine, first, "", None, actor=ADMIN)


def test_a_removed_dashboard_takes_no_pins_and_is_restored_with_its_own(engine: sa.Engine, board: str) -> None:
    pins.add(engine, board, SPEEDUP, "", actor=ADMIN)
    dashboards.remove(engine, board, actor=ADMIN)
    assert dashboards.all_dashboards(engine) == []
    with pytest.raises(UserError, match="does not exist, or was removed"):
        pins.add(engine, board, QUERY, "", actor=ADMIN)
    restored = dashboards.find(engine, board)
    assert restored is not None
    assert restored.removed_at is not None
    other = dashboards.create(engine, "Monday", actor=ADMIN)
    dashboards.restore(engine, board, actor=ADMIN)
    assert {dashboard.name for dashboard in dashboards.all_dashboards(engine)} == {"Monday", "Monday (2)"}
    assert figures(engine, board) == ["speedup"]
    assert figures(engine, other) == []


def test_a_copy_has_the_same_pins_and_is_independent(engine: sa.Engine, board: str) -> None:
    first, _ = (pins.add(engine, board, shown, "words", actor=ADMIN) for shown in (SPEEDUP, ACCEPTANCE))
    copy = dashboards.duplicate(engine, board, "Copy", actor=ADMIN)
    pins.remove(engine, first, actor=ADMIN)
    assert [pin.caption for pin in pins.pins_on(engine, copy)] == ["words", "words"]
    assert figures(engine, copy) == ["speedup", "acceptance"]
    with pytest.raises(UserError, match="already: choose another name"):
        dashboards.duplicate(engine, board, "Copy", actor=ADMIN)


def test_a_full_dashboard_refuses_another_pin(engine: sa.Engine, board: str) -> None:
    for number in range(pins.MAX_PINS):
        pins.add(engine, board, PinnedFigure("results", {"job": (str(number),)}, "speedup"), "", actor=ADMIN)
    with pytest.raises(UserError, match="is full: it has 60 pins"):
        pins.add(engine, board, QUERY, "", actor=ADMIN)


def test_simultaneous_pins_and_moves_of_several_people_are_all_kept(engine: sa.Engine) -> None:
    def work(person: int) -> None:
        board = dashboards.create(engine, "shared", actor=ADMIN)
        for number in range(5):
            mine = pins.add(
                engine, board, PinnedFigure("results", {"job": (f"{person}-{number}",)}, "speedup"), "", actor=ADMIN
            )
            pins.move(engine, mine, None, actor=ADMIN)
            pins.change(engine, mine, f"by {person}", None, actor=ADMIN)

    threads = [threading.Thread(target=work, args=(person,)) for person in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    (board,) = dashboards.all_dashboards(engine)
    on_board = pins.pins_on(engine, board.dashboard_id)
    assert sorted(pin.caption for pin in on_board) == sorted(f"by {person}" for person in range(4) for _ in range(5))
    assert len({pin.shown.parameters_json for pin in on_board}) == 20
