"""One file a page: parameters, then data, then what shows it."""
