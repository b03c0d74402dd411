"""
The server's own HTTP/1.1: what an API server needs of it, on asyncio's transports.

    messages.py     bytes to requests, answers to bytes: pure functions
    connection.py   one connection: reads a request, has it answered, again
    listener.py     all connections of a socket
    upgrades.py     requests that become something else (WebSockets): aiohttp's, loaded with the first of them

Why not aiohttp alone: it costs as much as the rest of a read, and a fifth of the memory of an empty server.
"""
