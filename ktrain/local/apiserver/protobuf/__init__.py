"""
Request bodies in Kubernetes' protobuf form, read into the JSON form of the same object.

    wire      numbers, strings and messages as protobuf writes them
    tables    which field has which number: `fields.json`, extracted by `hack/protobuf_fields.py`
    scalars   messages with a JSON form of their own: quantities, times, raw JSON
    decode    the envelope, and messages by their tables

kubectl sends protobuf from its `create` commands and Go controllers from everything they do with built-in kinds; both
give up after a 415. They accept JSON answers, so nothing here writes protobuf. A table-driven reader of 400 lines
replaces protobuf's runtime and a hundred generated modules, which every server would load and most never need.
"""

from ktrain.local.apiserver.protobuf.decode import decode as decode
from ktrain.local.apiserver.protobuf.decode import unwrap as unwrap
from ktrain.local.apiserver.protobuf.wire import WireError as WireError
