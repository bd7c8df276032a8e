"""`make icons`: the font of those icons that the pages, or Streamlit in them, name; without the other 4,000.

Material Symbols by Google, Apache-2.0.
"""

from __future__ import annotations

import re
import subprocess
from itertools import chain
from pathlib import Path

import streamlit as st

from tests.cli.homes import REPOSITORY
from webapp.server.compressed import ICON_FONT, ICONS

_STREAMLIT = Path(st.__file__).parent
_NAMED = re.compile(r":material/([a-z_0-9]+):")
#: Streamlit's own pictures and placeholders, which the font never had.
_NO_GLYPHS = {"star_filled", "icon_name"}
#: Old names of icons that the font keeps under a newer one.
_RENAMED = {
    "123": "_123",
    "1k": "_1k",
    "access_time": "schedule",
    "business": "domain",
    "new_releases": "verified",
    "remove_circle": "do_not_disturb_on",
}
_FONTTOOLS = "fonttools[woff]==4.68.0"


def names() -> list[str]:
    """Return the names of all icons in the source of the pages and of Streamlit."""
    python = chain(_STREAMLIT.rglob("*.py"), (REPOSITORY / "webapp").rglob("*.py"))
    files = chain(python, (_STREAMLIT / "static/static/js").glob("*.js"))
    found = set(chain.from_iterable(_NAMED.findall(file.read_text("utf-8")) for file in files))
    return sorted(found - _NO_GLYPHS)


def main() -> None:
    icons = names()
    glyphs = ",".join(_RENAMED.get(name, name) for name in icons)
    letters = "".join(sorted(set("".join(icons))))
    made = (f"--glyphs={glyphs}", f"--text={letters}", "--no-layout-closure", "--layout-features=*", "--flavor=woff2")
    program = ("uvx", "--from", _FONTTOOLS, "pyftsubset")
    subprocess.run((*program, str(ICON_FONT), *made, f"--output-file={ICONS}"), check=True)


if __name__ == "__main__":
    main()
