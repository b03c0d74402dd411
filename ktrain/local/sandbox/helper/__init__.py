"""
The helper: the process that holds the sandboxes of one runner, and what it forks.

Namespaces need a process with a single thread that may fork, and a runner is no such thing: it has an event loop,
threads, and memory nobody wants copied. So each executor starts one fresh interpreter (`python -IS`), which imports
little, of the standard library only, and talks to the runner over UNIX sockets (`wire`):

    runner ─┬─ janitor (main.py)      waits for the holder, then removes the runner's directory
            │   └─ holder (holder.py) forks pods; in ns mode PID 1 of a namespace around everything below
            │       └─ pod (pod.py)   one per sandbox, with its own socket to the runner; in ns mode PID 1 of the pod
            │           └─ container (container.py)   one per process started; reaps, forwards signals
            │               └─ the program

Everybody dies with whoever is above: by end-of-file of its socket, by the parent-death signal, and in ns mode by the
kernel, which kills a PID namespace with its PID 1. So neither SIGKILL of the runner nor of any process here leaves
anything behind. Their command lines do not name the runner's program, so that `pkill -f` of it spares them; and should
somebody kill all of them in one instant, the next runner removes the directory (`scratch`).
"""
