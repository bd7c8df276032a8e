"""The ingester: bundles into the master database, and the master published for readers."""
