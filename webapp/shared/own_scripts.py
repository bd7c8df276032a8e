"""Our own scripts for what Streamlit lacks, declared as its components. They are files, as the page's policy allows
only scripts from the server, none within a message.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import streamlit as st
from streamlit.components.v2.get_bidi_component_manager import get_bidi_component_manager
from streamlit.components.v2.manifest_scanner import ComponentConfig, ComponentManifest
from streamlit.runtime import exists


def show(package_file: str, key: str, **options: Any) -> None:
    """Add the script of a package to the page; it has the name of its folder, which is served with it."""
    if not exists():  # a test of a page's script alone
        return
    folder = Path(package_file).parent
    name = f"drafthouse.{folder.name}"
    manager = get_bidi_component_manager()
    if manager.get(name) is None:
        config = ComponentConfig(folder.name, folder.name)
        manager.register_from_manifest(ComponentManifest("drafthouse", "1", [config]), folder.parent)
    st.components.v2.component(name, js=f"{folder.name}.js", isolate_styles=False)(key=key, height=1, **options)
