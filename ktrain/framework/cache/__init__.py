"""
Live copies of what the API server holds.

    reflector   list and watch, and what to do when they fail       listing    the paged list
    store       objects and indexes                                 informer   store + handlers + own writes
    waiting     who waits for which write                           cache      one informer per resource and scope
"""
