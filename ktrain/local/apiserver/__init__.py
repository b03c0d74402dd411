"""
A small, correct Kubernetes API server in memory: for `ktrain run`, `ktrain up` and tests.

    server.py                              ApiServer: a request in, an answer out, as bytes
    inprocess.py, http.py, front/          the two ways to it; front/ is HTTP
    store.py, watchers.py                  objects, revisions, history; who is told of them
    durability/                            objects that outlive the process
    registry.py, builtins/, crds.py        what is served: built-in kinds, custom ones
    requests.py, codec.py                  what a request says; numbers.py and nulls.py as Go's decoders see them
    representation.py                      how an answer looks
    dispatch.py                            from method and URL to the verb
    listing.py, watching.py, selection.py  reads
    verbs/                                 writes
    gc.py, namespaces.py, quotas.py, ...   the server's own controllers; working.py is how they work
    admission.py, logs.py                  the seams for admission plugins and for the kubelet
    webhooks.py, policies/                 admission that users configure; matching.py and conditions.py: for what
    reviews.py, callouts.py, services.py   how webhooks are asked, and where they are
    conversion.py, versions.py             objects from one version to another
    apply.py, table.py, openapi.py, ...    pure transformations
"""
