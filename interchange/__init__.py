"""Results as files: other tools' results are imported, ours are exported and restored.

`store.import_paths` imports. `formats` has one module per format; docs/importing.md lists what each field becomes.
"""
