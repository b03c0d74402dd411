"""
Talking to the API server.

    transport     the seam: bytes out, bytes in        http       over aiohttp
    codec         bytes to objects                     keeping    what of an object is kept, and shared
    sending       one call with all around it          fairness   how many at once, and whose turn it is
    retry         which failures are sent again        options    what may be said with a call
    client        the typed client                     mapper     kinds by name, at run time
    reading       pages, lists, watches                recording  what a write stored, for read-your-own-writes
    subresources  scale, eviction, token, log, ...     warnings   what the server has to say besides
    generated     kubernetes_asyncio's API, over ours  discovery  what the server says it serves

    pools       connections; new certificates      connector, keepalive   how a connection is made
    exchange    a request and its answer on one    plugin_process         running a program for its answer
    finding     which API server, and who we are   credentials, renewal   how that is held, and kept fresh
    kubeconfig  reading kubeconfigs                exec_plugin, oidc      where tokens and certificates come from
"""
