"""The verbs of `drafthouse`: one file each, with what it prints. `cli.app` imports a file when its verb is called."""
