"""Pure functions from a data frame to an Altair chart."""
