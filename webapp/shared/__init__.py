"""Shared parts of pages: URL parameters and their widgets, published data, cards, figures, tables, downloads."""
