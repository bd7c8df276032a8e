"""Engines as processes in their own environments, never as imports: installed, launched, guarded, stopped."""
