"""
TrainJobs and runtimes made at random, and what is done with them afterwards.

All follows from a seed. Objects are valid, mostly, in every field of Trainer 2.3; `spoil` makes some nearly so. What
ktrain does otherwise on purpose is not made, or excused in `test_random`.
"""
