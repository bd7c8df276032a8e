"""The ingester: reads bundles into the master database and publishes a copy of it for readers."""
