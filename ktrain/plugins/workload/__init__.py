"""
Workload: a TrainJob as gangs of Kubernetes itself (`scheduling.k8s.io`), placed whole or not at all by its scheduler.

- `plugin` the hooks, and in which order the objects come
- `groups` which pods are in which group, and how many of a gang have to start together
- `versions` the API as it was in each version, and what is read of its objects
- `objects` the Workload and its PodGroups
- `rules` what a runtime with this policy may not say
"""

from .plugin import Workload as Workload
