"""
Live copies of what the API server holds.

    reflector   list and watch, and what to do when they fail       listing    the paged list
    intake      what each line of a watch means                     silence    when a quiet watch is dead
    store       objects and indexes                                 handlers   who is told, and how
    informer    store + handlers + own writes                       waiting    who waits for which write
    replays     what comes twice or late                            record     counts for statistics and metrics
    footprint   how much memory it takes                            scope      which objects of a kind
    names       of objects that are not held                        cache      one informer per resource and scope
    subscription   changes for those who need to wait
"""
