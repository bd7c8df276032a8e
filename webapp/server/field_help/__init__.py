"""Names each help button after its field, by a script of our own, and takes buttons for which a field has a key out of
the order of Tab: each is one more press of it.

Streamlit calls the button beside a text only "Help". F1 in a field shows its help, F2 opens the details of its row.
"""

from __future__ import annotations

from webapp.shared import own_scripts


def show() -> None:
    own_scripts.show(__file__, "field-help")
