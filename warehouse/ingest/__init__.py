"""The ingester: reads bundles into the master database and publishes it for readers."""
