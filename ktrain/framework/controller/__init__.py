"""
Keys in, reconciles out.

    controller  workers and their passes                              results     what the end of a pass means
    starting    what is waited for before the first                   holds       what is before a key's next
    sources     from events to keys                                   predicates  which events are worth a pass
    context     which pass the running code belongs to, and why       stuck       deadlines, and what stands still
"""
