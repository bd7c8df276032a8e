"""Our own scripts for what Streamlit lacks, declared as its components. They are files, as the page's policy allows
only scripts from the server, none within a message.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import streamlit as st
from streamlit.components.v2.get_bidi_component_manager import get_bidi_component_manager
from streamlit.components.v2.manifest_scanner import ComponentConfig, ComponentManifest


def component(file: Path) -> Any:
    """Return the mount function of the script in this file, whose folder is served with it."""
    package, name = "drafthouse", file.stem
    manager = get_bidi_component_manager()
    if manager.get(f"{package}.{name}") is None:
        manager.register_from_manifest(
            ComponentManifest(package, "1", [ComponentConfig(name, file.parent.name)]), file.parents[1]
        )
    return st.components.v2.component(f"{package}.{name}", js=file.name, isolate_styles=False)
