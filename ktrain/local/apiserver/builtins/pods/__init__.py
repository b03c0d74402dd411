"""Pods: what is filled in, what admission adds, what may change, and in `validation/` what may be said at all."""
