"""
Objects that outlive the process: `ktrain up --state DIR`.

    database.py   one SQLite file: the newest version of every object, and the revision
    journal.py    commits in, batches out: many writers share one transaction and its fsync
    restoring.py  from the file back into a server's store

Memory stays what it is: reads and watches never touch the disk. A commit is made in memory at once, and the answer to
the request that made it waits until its batch is on disk. Whatever a client was told is therefore stored; what it was
not told may be or not, as with any server that dies before it answers.
"""
