"""What several pages use: URL parameters and their widgets, published data, cards, figures, tables, downloads."""
