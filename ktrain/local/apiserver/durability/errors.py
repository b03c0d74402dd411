"""What is wrong with state; here, so that nobody loads SQLite to say it."""


class StateError(Exception):
    """State cannot be used; the message says which, why, and what to do."""
