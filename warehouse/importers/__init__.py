"""Result files of other tools: detected by content, checked, and read as `ImportedRun`s.

`store.import_paths` is the entry point. One module per format; docs/importing.md says what each field became.
"""
