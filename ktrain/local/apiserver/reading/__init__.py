"""Lists, watches, selectors and logs."""
