"""The verbs of `drafthouse`: a folder per panel of `--help`, a file per verb with its output.

`cli.app` imports a file when its verb is called.
"""
