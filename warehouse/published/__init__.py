"""Published results of other groups: figures.csv has them as printed, sources.toml who measured them and how."""
