"""
Keys in, reconciles out.

    controller  workers, their passes, holding back for own writes    results     what the end of a pass means
    sources     from events to keys                                   predicates  which events are worth a pass
    context     which pass the running code belongs to, and why       stuck       deadlines, and what stands still
"""
