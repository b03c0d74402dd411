"""
Users' files to objects, or all that is wrong with them at once.

    documents = load(["job.yaml", "-"], stdin=sys.stdin.buffer) -> list[Document]    # Document: object, file, line
    resource_of(obj) -> Resource[Json]                                               # where objects of its kind live
    is_namespaced(obj) -> bool

A file is YAML or JSON, holds any number of documents, and may hold lists of objects. Files are bounded in size, depth
and in what their aliases expand to, so no input hangs the command. Plain words mean what the API server takes them for
(YAML 1.1: `on` is true). Every object is checked against the schema of its kind before anything is created: a misspelt
field, which the server would drop silently or refuse after half of the objects exist, is an error here, with its line
and the nearest right name. Cross-field rules (CEL) stay the server's.
"""

from .errors import DocumentError as DocumentError
from .errors import Problem as Problem
from .kinds import is_namespaced as is_namespaced
from .kinds import resource_of as resource_of
from .load import Document as Document
from .load import load as load
