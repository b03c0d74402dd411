"""
Everything starts in order, runs together, and stops in order.

    manager   the order      groups   what starts and stops together      signals   SIGTERM and SIGINT
"""
