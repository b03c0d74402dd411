"""
A whole operator in one object.

    operator   the parts, connected as they have to be      settings   how it runs      startup   before it runs
    endpoints  what it answers when asked from outside            clusters   what it has for each API server
"""
