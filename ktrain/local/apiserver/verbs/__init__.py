"""
The write verbs. Each takes a `Backend` and a `Call` and returns what the client gets to see.

    accepting.py    a decoded body becomes a pruned, defaulted object, or a refusal
    writing.py      the part all writes share: ownership, admission, validation, commit
    create.py       POST
    update.py       PUT, also of the status subresource
    patching.py     PATCH: JSON, merge, strategic merge; patches.py: their documents
    applying.py     PATCH: server-side apply
    scale.py        the scale subresource
    delete.py       DELETE of one object and of a collection
"""
