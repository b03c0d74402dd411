"""
What an operator serves over HTTP, webhooks aside.

    health         probes, and metrics                authorization   who may read metrics
    debug          a look inside                      self_signed     a certificate of our own
    site           an application on a socket         connections     a listener with limits, for strangers
    dial           a look at ourselves, by TLS        remembered      what was decided, for a while
    address        HOST:PORT
"""
