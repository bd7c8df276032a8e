"""The menu that shares what a page shows."""

from __future__ import annotations

from streamlit.testing.v1 import AppTest

from host.settings import Settings
from tests.lab.studies import study
from tests.webapp.conftest import OpenPage
from tests.webapp.measured import measure_study
from tests.webapp.page_text import ran


def addresses(app: AppTest) -> list[str]:
    return [code.value for code in app.code if "/shared/" in code.value]


def test_a_link_that_was_just_made_stays_until_the_menu_is_closed(open_page: OpenPage, settings: Settings) -> None:
    """Pages run again by themselves when there are new data, and the link is shown this once."""
    job_id = measure_study(settings, study(name="shared"))
    app = open_page("results", job=job_id)
    assert not addresses(app)
    app.session_state["share-study"] = True
    app = ran(app.run())
    (make,) = [button for button in app.button if button.label == "Make a link"]
    (made,) = addresses(ran(make.click().run()))
    assert addresses(ran(app.run())) == [made]
    app.session_state["share-study"] = False
    ran(app.run())
    app.session_state["share-study"] = True
    assert not addresses(ran(app.run()))
