"""PersistentVolumes, claims on them, and their classes."""
