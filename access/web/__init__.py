"""The login of visitors: what a request may do before any page or route sees it."""
