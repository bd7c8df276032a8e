"""Results that come and go as files: those of other tools are imported, ours are exported and restored.

`store.import_paths` imports. One module per format in `formats`; docs/importing.md says what each field became.
"""
