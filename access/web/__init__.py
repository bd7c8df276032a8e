"""The login of visitors, and the checks of every request before any page or route sees it."""
