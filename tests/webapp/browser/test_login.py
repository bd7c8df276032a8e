"""From `drafthouse user add` to a link that a colleague opens, as an administrator, a viewer and a stranger walk it in
a browser.
"""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

from playwright.sync_api import BrowserContext, Page, expect

from tests.chromium import another_person
from tests.cli.homes import DRAFTHOUSE, REPOSITORY
from tests.lab.studies import study
from tests.webapp.browser.clicks import open_listed, settled
from tests.webapp.homes import environment, make_home
from tests.webapp.measured import measure_study
from tests.webapp.served import served

PASSWORD = "correct horse battery"


def invited(variables: dict[str, str], name: str, role: str) -> str:
    """The path of the link that the command prints for a new user."""
    command = (DRAFTHOUSE, "user", "add", name, "--role", role)
    added = subprocess.run(
        command, cwd=REPOSITORY, env=os.environ | variables, capture_output=True, text=True, check=True
    )
    (path,) = re.findall(r"/login/link/\S+", added.stdout)
    return str(path)


def come_in(page: Page, url: str, link: str) -> None:
    page.goto(f"{url}{link}")
    page.get_by_label("New password").fill(PASSWORD)
    page.get_by_label("The same again").fill(PASSWORD)
    page.get_by_role("button", name="Set the password").click()
    page.get_by_role("heading", name="Home").wait_for()


def visitor(browser: BrowserContext) -> Page:
    """In a browser of their own."""
    return another_person(browser, viewport={"width": 1280, "height": 1000}).new_page()


def shared(page: Page) -> str:
    """A link to the newest study, made as a reader makes it."""
    open_listed(page, "Results")
    settled(page)
    page.get_by_role("button", name="Share").click()
    make = page.get_by_role("button", name="Make a link")
    make.wait_for()
    settled(page)
    make.click()
    made = page.get_by_text(re.compile(r"/shared/[\w-]{43}$"))
    made.wait_for()
    keep(page, "share")
    return made.inner_text().strip()


def keep(page: Page, name: str) -> None:
    """A picture for whoever wants to look at the walk."""
    if folder := os.environ.get("WALK_PICTURES"):
        page.screenshot(path=f"{folder}/{name}.png", full_page=True)


def test_an_administrator_and_a_viewer_see_and_share_what_they_may(tmp_path: Path, browser: BrowserContext) -> None:
    settings = make_home(tmp_path)
    measure_study(settings, study(name="shared study", repeats=3))
    variables = environment(settings) | {"DRAFTHOUSE_WEB_LOGIN": "accounts", "DRAFTHOUSE_WEB_SHARE_BY": "everybody"}
    ada, vera = invited(variables, "ada", "administrator"), invited(variables, "vera", "viewer")
    with served(variables) as url:
        admin = visitor(browser)
        admin.goto(f"{url}/submit?preset=demo")
        admin.get_by_role("heading", name="Sign in").wait_for()
        come_in(admin, url, ada)
        admin.get_by_text("Signed in as ada, administrator").wait_for()
        open_listed(admin, "Submit", "Submit a study")
        admin.get_by_role("button", name="Submit study").wait_for()

        open_listed(admin, "Account")
        settled(admin)
        admin.get_by_role("tab", name="Users").click()
        admin.get_by_role("button", name="Add the user").wait_for()
        admin.get_by_role("button", name="Disable").wait_for()
        keep(admin, "users")
        admin.get_by_role("link", name="Sign out").click()
        admin.get_by_role("heading", name="Sign in").wait_for()
        viewer = admin  # at the same desk
        come_in(viewer, url, vera)
        open_listed(viewer, "Submit", "Submit a study")
        viewer.get_by_text("submitting it needs the submitter role").wait_for()
        expect(viewer.get_by_role("button", name="Submit study")).to_have_count(0)
        viewer.get_by_role("link", name="Sign out").click()
        viewer.get_by_role("heading", name="Sign in").wait_for()
        viewer.get_by_label("Name").fill("vera")
        viewer.get_by_label("Password").fill("a wrong password")
        viewer.get_by_role("button", name="Sign in").click()
        expect(viewer.get_by_role("alert")).to_have_text("The name or the password is wrong.")
        viewer.get_by_label("Password").fill(PASSWORD)
        viewer.get_by_role("button", name="Sign in").click()
        viewer.get_by_text("Signed in as vera, viewer").wait_for()
        link = shared(viewer)
        viewer.context.close()

        stranger = visitor(browser)
        stranger.goto(link)
        stranger.get_by_role("heading", name="shared study").wait_for()
        expect(stranger.locator(".answer").first).to_contain_text("Throughput at concurrency 1: ")
        stranger.locator(".chart svg").first.wait_for()
        expect(stranger.get_by_role("link")).to_have_count(0)
        keep(stranger, "shared")
        stranger.goto(f"{url}/results")
        stranger.get_by_role("heading", name="Sign in").wait_for()
        stranger.context.close()
