"""
A small, correct Kubernetes API server in memory: for `ktrain run`, `ktrain up` and tests.

    server.py           ApiServer: a request in, an answer out, as bytes      inprocess.py, http.py   the two ways to it
    store.py            objects, revisions, history; watchers.py              registry.py             what is served
    routing.py          URLs; requests.py, codec.py, representation.py        dispatch.py             method and URL
    to verb listing.py          GET, lists, paging; watching.py, selection.py         verbs/                  the writes
    builtins/           built-in kinds; crds.py: custom ones                  gc.py, namespaces.py    the server's
    controllers admission.py        the seam for admission plugins                        logs.py                 the
    seam for the kubelet apply.py, table.py, discovery.py, openapi.py, ...                         pure transformations
"""
