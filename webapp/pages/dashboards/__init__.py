"""The Dashboards page, and pinning figures to dashboards."""
