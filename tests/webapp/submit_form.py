"""Filling in and reading the form of the Submit page under AppTest."""

from __future__ import annotations

import re
from typing import Any

from streamlit.testing.v1 import AppTest

from host.settings import Settings
from jobs import queue
from jobs.table import Job
from lab.study import Study
from lab.study.parsing import study_from_toml
from tests.webapp.page_text import ran
from warehouse.app_db.engine import open_engine


def field(app: AppTest, kind: str, column: str) -> Any:
    """The widget of a field or of a row's column, whichever version of the form is shown."""
    (widget_found,) = [
        widget for widget in getattr(app, kind) if re.fullmatch(rf"submit-\d+-{re.escape(column)}", str(widget.key))
    ]
    return widget_found


def set_value(app: AppTest, kind: str, column: str, value: Any) -> AppTest:
    return ran(field(app, kind, column).set_value(value).run())


def set_values(app: AppTest, *filled_in: tuple[str, str, Any]) -> AppTest:
    """Fill in several fields (kind, column, value) before the page runs again."""
    for kind, column, value in filled_in:
        field(app, kind, column).set_value(value)
    return ran(app.run())


def set_name(app: AppTest, name: str) -> AppTest:
    return set_value(app, "text_input", "name", name)


def column_values(app: AppTest, kind: str, column: str) -> list[Any]:
    """The values of a table's column (`arms[]name`), row by row."""
    pattern = re.compile(rf"submit-\d+-{column.replace('[]', r'-[0-9]+-')}")
    return [widget.value for widget in getattr(app, kind) if pattern.fullmatch(str(widget.key))]


def unfold(app: AppTest, part: str, *, opened: bool = True) -> AppTest:
    """Open or close a row's details (`arms-1`), or the fields that most studies leave as they are (`more`)."""
    column = "more-False" if part == "more" else f"{part}-details"
    app.session_state[str(field(app, "text_input", "name").key).replace("-name", f"-{column}")] = opened
    return ran(app.run())


def edit_as(app: AppTest, mode: str) -> AppTest:
    return ran(app.segmented_control(key="submit-mode").set_value(mode).run())


def toml(app: AppTest) -> Any:
    (area_found,) = [area for area in app.text_area if area.label == "The study in TOML"]
    return area_found


def shown_study(app: AppTest) -> Study:
    """The study that the form describes, read from its text."""
    if app.segmented_control(key="submit-mode").value != "TOML":
        edit_as(app, "TOML")
    study = study_from_toml(toml(app).value)
    edit_as(app, "Form")
    return study


def follow_link(app: AppTest, **query: str) -> AppTest:
    """Go to the page that is shown with other parameters in its link."""
    app.query_params.clear()
    for name, value in query.items():
        app.query_params[name] = value
    return ran(app.run())


def submitted_jobs(settings: Settings) -> list[Job]:
    """The newest first."""
    with open_engine(settings.app_database_url) as engine:
        return queue.jobs(engine)
