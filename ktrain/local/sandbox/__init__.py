"""Where the processes of pods run: in namespaces of their own, or on the shared host. Start at `executor`."""
