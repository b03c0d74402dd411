"""
ktrain: a controller runtime for asyncio, and on it a training operator.

The rooms, from the bottom up: `api` (the wire), `framework` (the controller runtime), `pipeline` (the four phases),
`plugins` (the built-in ones), `controllers` (the reconcilers), `local` (the embedded control plane), `cli`. Beside them
are `testing` (the test kit) and `initializers` (programs that fetch datasets and models, in images of their own).
`docs/architecture.md` follows one TrainJob through all of them.
"""

__version__ = "0.1.0"
