"""What a shared link opens: one dashboard, study or run as a page of its own, without a login and without a session."""
