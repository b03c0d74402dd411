"""
Talking to the API server.

    transport   the seam: bytes out, bytes in      http    over aiohttp; pools its connections
    codec       bytes to objects                   retry   which refusals are sent again
    client      the typed client

    finding     which API server, and who we are   credentials, renewal   how that is held, and kept fresh
    kubeconfig  reading kubeconfigs                exec_plugin, oidc      where tokens and certificates come from
"""
