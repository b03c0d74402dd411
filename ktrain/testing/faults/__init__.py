"""
Bad weather between a client and its API server: one vocabulary, in process and between sockets.

    faults = FaultTransport(plane.transport, env)
    client = Client(faults, env, field_manager="me")

    faults.on("write").delay(0.3)                                      # every write, for good
    faults.on("create", CONFIG_MAPS, nth=1).lose_answer()              # stored, but nobody is told
    faults.on("update", name="a", times=3).answer(409)
    with faults.on("watch").cut(every_s=0.2):                          # until the block ends
        ...
    assert faults.count("initial", CONFIG_MAPS) == 1                   # and everything that passed can be looked up

`on` says which calls (`Faults.on`), the method behind it what happens to them (`When`). Several rules may meet one
call: they take effect in the order in which they were added. Rules come and go while calls and watches run.

    calls       one call, understood: verb, resource, what came back; the log of all
    rules       which calls are met, and how often; what may happen to them
    requests    effects on a call and its answer
    streams     effects on the lines of a watch
    revisions   resource versions that jump
    transport   `FaultTransport`; `ktrain.testing.proxy` is the same between sockets
"""

from .calls import Call as Call
from .rules import Faults as Faults
from .rules import Rule as Rule
from .rules import When as When
from .transport import FaultTransport as FaultTransport
