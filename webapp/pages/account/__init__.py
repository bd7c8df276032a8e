"""The page of who looks at it: their links, tokens and password; and for an administrator the users."""
