"""
The test kit, for ktrain's own tests and for anyone's.

    plugin.py       pytest fixtures: `control_plane`, embedded by default, a real one with KUBEBUILDER_ASSETS
    planes.py       what the fixture gives, also as context managers
    crds.py         anyone's CRDs, from files or objects to kinds that are served
    envtest.py      the environment variables that say which control plane
    programs.py     starts anything that has a health port
    realserver.py   starts etcd, kube-apiserver and kube-controller-manager
    users.py        an authority whose client certificates are users of that server
    time.py         an event loop with virtual time, on which code can be stopped and continued
    faults/         bad weather between a client and its API server
    proxy.py        the same between sockets
    gate.py         what may go wrong there below HTTP
    simulation.py   whole controllers on virtual time: crashes, weather, invariants
"""
