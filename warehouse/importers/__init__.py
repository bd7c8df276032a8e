"""Result files of other tools: recognised by content, checked, and turned into `ImportedRun`s.

`chosen.import_paths` is the way in. One module a format; docs/importing.md says what each field became.
"""
