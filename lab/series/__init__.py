"""A study that is measured again and again: when it is due, and when it has become worse."""
