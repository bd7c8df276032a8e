"""Engines: processes in their own environments, never imports."""
