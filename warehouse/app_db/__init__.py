"""The app database: studies, jobs, workers, prices, saved views and dashboards, which people and workers change."""
