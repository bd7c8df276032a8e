"""The app database: what people and workers edit."""
