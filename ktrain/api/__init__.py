"""
The wire: what objects look like, and pure functions of them. Imports nothing else of ktrain.

`meta`, `core`, `trainer`, `jobset`: objects as controllers read them. `schema`: objects as the API server checks them.
`crds`, `assets`: the CRDs, generated and shipped. `documents`: users' files. `quantity`, `selectors`, `patch`,
`strategic`: the small languages inside objects.
"""
