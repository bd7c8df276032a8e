"""Pages of shared links: one dashboard, study or run on a page of its own, without a login or a session."""
