"""Which worker runs what: hosts, their keys and engines, leases, and the waking of workers."""
