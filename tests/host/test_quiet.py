"""Windows of a machine and the other work of ours there: neither begins unseen, and what ran beside is known."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import psutil
import pytest

from host import quiet
from host.settings import Settings
from tests.warehouse.asking import ask
from tests.warehouse.runs import write_run
from warehouse.ingest import service
from warehouse.queries.point_in_time import as_of, seen_as_of
from warehouse.sandbox.runner import run_sql

PATIENCE_S = 600.0


def until(condition: object, within_s: float = PATIENCE_S) -> None:
    give_up_s = time.monotonic() + within_s
    while not condition():  # type: ignore[operator]
        assert time.monotonic() < give_up_s
        time.sleep(0.01)


@contextmanager
def in_thread(target: object, *arguments: object) -> Iterator[threading.Event]:
    """Run it beside the block; the event stops it."""
    stop = threading.Event()
    thread = threading.Thread(target=target, args=(*arguments, stop))  # type: ignore[arg-type]
    thread.start()
    try:
        yield stop
    finally:
        stop.set()
        thread.join(PATIENCE_S)
        assert not thread.is_alive()


def whats(home: Path, *kinds: quiet.Kind) -> list[str]:
    return [work.what for work in quiet.under_way(home, *kinds)]


def test_work_is_seen_while_it_lasts_by_its_kind_and_leaves_nothing(tmp_path: Path) -> None:
    with quiet.announced(tmp_path, "window", "one"), quiet.announced(tmp_path, "job", "two"):
        assert whats(tmp_path, "window") == ["one"]
        assert sorted(whats(tmp_path, "window", "job", "ingest")) == ["one", "two"]
    assert whats(tmp_path, "window", "job") == []
    with pytest.raises(ZeroDivisionError), quiet.announced(tmp_path, "ingest", "three"):
        raise ZeroDivisionError
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_work_of_a_killed_process_is_over(tmp_path: Path) -> None:
    child = os.fork()
    if child == 0:
        with quiet.announced(tmp_path, "window", "to be killed"):
            signal.pause()
    until(lambda: whats(tmp_path, "window"))
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    assert whats(tmp_path, "window") == []
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_work_beside_a_window_is_summed_without_short_and_own_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def work(kind: quiet.Kind, subject: str, seconds: float) -> None:
        with quiet.announced(tmp_path, kind, subject):
            time.sleep(seconds)

    work("ingest", "before", 0.12)
    began_s = time.monotonic()
    with quiet.announced(tmp_path, "job", "mine"), quiet.announced(tmp_path, "window", "mine"):
        work("question", "results", 0.15)
        work("question", "results", 0.15)
        with monkeypatch.context() as patched:
            patched.setattr(quiet, "LEAST_RECORDED_S", PATIENCE_S)  # however slow the machine is
            work("question", "quick", 0.0)
        with quiet.announced(tmp_path, "job", "another"):
            time.sleep(0.12)
            ended_s = time.monotonic()
            works = quiet.beside(tmp_path, began_s, ended_s, "mine")
    (results, another) = works
    assert (results.kind, results.what) == ("question", "results")
    assert 0.3 <= results.seconds < ended_s - began_s
    assert (another.kind, another.what) == ("job", "another")
    (within,) = quiet.beside(tmp_path, ended_s - 0.05, ended_s, "mine")  # nothing but what lies in the span counts
    assert within.what == "another"
    assert within.seconds == pytest.approx(0.05)
    assert quiet.beside(tmp_path, time.monotonic(), time.monotonic() + 1, "mine") == ()


def test_the_list_of_what_has_ended_stays_small_and_forgets_nothing_recent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(quiet, "LEAST_RECORDED_S", 0.0)
    monkeypatch.setattr(quiet, "_MAX_ENDED_BYTES", 1000)
    began_s = time.monotonic()
    for number in range(60):
        with quiet.announced(tmp_path, "question", f"question {number}"):
            pass
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert 1 <= len(files) <= 2
    assert sum(path.stat().st_size for path in files) < 3000
    whats = {work.what for work in quiet.beside(tmp_path, began_s, time.monotonic(), "")}
    assert {"question 58", "question 59"} <= whats


def test_a_line_that_a_full_disk_has_cut_hides_no_other(tmp_path: Path) -> None:
    with quiet.announced(tmp_path, "question", "first"):
        time.sleep(0.11)
    (file,) = (path for path in tmp_path.rglob("*") if path.is_file())
    file.write_text('["question-0", "ques\n' + file.read_text())
    assert [work.what for work in quiet.beside(tmp_path, 0.0, time.monotonic(), "")] == ["first"]


def test_an_ingestion_waits_for_the_end_of_a_window(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quiet, "_CROWDED_FOR_S", PATIENCE_S)
    write_run(settings.bundles)
    with quiet.announced(settings.home, "window", "job-1"), in_thread(service.run, settings):
        until(lambda: whats(settings.home, "ingester"))
        time.sleep(0.5)
        assert whats(settings.home, "ingest") == []
        assert not ask(settings, "select run_id from runs")
    # the ingester was stopped before its window ended
    with in_thread(service.run, settings):
        until(lambda: ask(settings, "select run_id from runs") == [("run-1",)])


def test_windows_without_a_gap_do_not_hold_it_up_forever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quiet, "_CROWDED_FOR_S", 0.3)
    with quiet.announced(tmp_path, "window", "one"), quiet.announced(tmp_path, "window", "two"):
        began_s = time.monotonic()
        with quiet.between_windows(tmp_path, threading.Event()) as may_ingest:
            assert may_ingest
            assert time.monotonic() - began_s > 0.3


def test_a_window_that_begins_at_the_same_moment_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The window is announced after the ingester looked, and before it announced itself."""
    looks, stop = list[list[quiet.Work]](), threading.Event()
    window = quiet.announced(tmp_path, "window", "one")
    look = quiet.under_way

    def looking(home: Path, *kinds: quiet.Kind) -> list[quiet.Work]:
        looks.append(look(home, *kinds))
        if len(looks) == 1:
            window.__enter__()
        else:
            stop.set()
        return looks[-1]

    monkeypatch.setattr(quiet, "under_way", looking)
    with quiet.between_windows(tmp_path, stop) as may_ingest:
        assert not may_ingest
    window.__exit__(None, None, None)
    assert [len(seen_then) for seen_then in looks[:2]] == [0, 1]


def test_an_ingester_publishes_at_once_when_it_is_asked_and_says_so(settings: Settings) -> None:
    slow = settings.model_copy(update={"ingest_every_s": 3600.0})
    assert quiet.ask_for_round(settings.home) is None  # nobody is there
    with in_thread(service.run, slow):
        until(lambda: whats(settings.home, "ingester"))
        write_run(settings.bundles)
        request = quiet.ask_for_round(settings.home)
        assert request is not None
        until(lambda: not request.exists())
        assert ask(settings, "select run_id from runs") == [("run-1",)]


def niceness() -> int:
    return os.getpriority(os.PRIO_PROCESS, threading.get_native_id())


def test_a_question_during_a_window_has_the_lowest_priority(
    tmp_path: Path,
) -> None:
    usual = niceness()
    assert quiet.run_at_low_priority(tmp_path, "a question", niceness) == usual
    moment = datetime(2026, 11, 22, tzinfo=UTC)
    with quiet.announced(tmp_path, "window", "one"), as_of(moment):
        assert quiet.run_at_low_priority(tmp_path, "a question", niceness) == 19
        assert quiet.run_at_low_priority(tmp_path, "a question", seen_as_of) == moment
        assert quiet.run_at_low_priority(tmp_path, "a question", _disk_class) == psutil.IOPRIO_CLASS_IDLE
        with pytest.raises(ZeroDivisionError):
            quiet.run_at_low_priority(tmp_path, "a question", lambda: 1 / 0)
    assert niceness() == usual


def test_a_command_that_begins_within_a_window_has_the_lowest_priority(tmp_path: Path) -> None:
    child = os.fork()  # what is lowered is not raised again
    if child == 0:
        with quiet.announced(tmp_path, "window", "one"), quiet.command(tmp_path, "drafthouse compare"):
            os._exit(niceness())
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 19


def _disk_class() -> int:
    return int(psutil.Process(threading.get_native_id()).ionice().ioclass)


def test_reading_makes_no_home_and_needs_no_right_to_write_to_one(tmp_path: Path) -> None:
    missing, closed = tmp_path / "missing", tmp_path / "closed"
    closed.touch()  # not a folder: nothing can be written in it
    for home in (missing, closed):
        with quiet.announced_if_possible(home, "question", "sql"):
            pass
    assert not missing.exists()


def test_sql_during_a_window_has_the_lowest_priority_and_is_recorded(settings: Settings) -> None:
    class SeenError(Exception):
        pass

    def stop_when_seen() -> None:
        for child in psutil.Process().children():
            with contextlib.suppress(psutil.Error):
                if child.nice() == 19:
                    raise SeenError

    with quiet.announced(settings.home, "window", "one"):
        began_s = time.monotonic()
        with pytest.raises(SeenError):
            run_sql(settings.model_copy(update={"sql_timeout_s": 600.0}), "select sleep_ms(600000)", 1, stop_when_seen)
    assert [work.what for work in quiet.beside(settings.home, began_s, time.monotonic(), "")] == ["sql"]
