"""
The test kit, for ktrain's own tests and for anyone's.

    plugin.py       pytest fixtures: `control_plane`, embedded by default, a real one with KUBEBUILDER_ASSETS
    planes.py       what the fixture gives, also as context managers
    realserver.py   starts etcd, kube-apiserver and kube-controller-manager from KUBEBUILDER_ASSETS
    time.py         an event loop with virtual time
"""
