"""Connections that stay: exec, attach and port-forward."""
