"""The verbs of `drafthouse`: a folder per panel of `--help`, a file per verb with what it prints.

`cli.app` imports a file when its verb is called.
"""
