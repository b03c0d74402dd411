"""
One leader, and the guard that keeps a former one from writing.

    election   acquiring, renewing, releasing      lease   what a candidate may conclude from a record
    writes     over that record, and no other
"""
