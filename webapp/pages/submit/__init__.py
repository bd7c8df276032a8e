"""The Submit page: a study as a form or as text."""
