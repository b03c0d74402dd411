"""framework/client."""
