"""`make engine-matrix`: what releases of an engine really do, written as the captures of jobs/engines/captures."""
