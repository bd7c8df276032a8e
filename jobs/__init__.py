"""The queue of studies, for submitters, watchers and workers. Starts and measures nothing."""
