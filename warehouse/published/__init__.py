"""Results that others published: figures.csv as printed; sources.toml says who published and how they measured."""
