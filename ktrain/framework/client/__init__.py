"""
Talking to the API server.

    transport   the seam: bytes out, bytes in      http    over aiohttp, with kubeconfig or in-cluster credentials
    codec       bytes to objects                   retry   which refusals are sent again
    client      the typed client
"""
