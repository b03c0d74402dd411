"""
Talking to the API server.

    transport     the seam: bytes out, bytes in        http       over aiohttp; pools its connections
    codec         bytes to objects                     retry      which failures are sent again
    sending       one call with all around it          fairness   how many at once, and whose turn it is
    client        the typed client                     options    what may be said with a call
    reading       pages, lists, watches                recording  what a write stored, for read-your-own-writes
    subresources  scale, eviction, token, log, ...     warnings   what the server has to say besides
    mapper        kinds by name, at run time           discovery  what the server says it serves
    generated     kubernetes_asyncio's typed API, over the client

    finding     which API server, and who we are   credentials, renewal   how that is held, and kept fresh
    kubeconfig  reading kubeconfigs                exec_plugin, oidc      where tokens and certificates come from
"""
