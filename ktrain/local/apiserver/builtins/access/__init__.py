"""Who may do what, and who is asked before it is done: roles, reviews, webhooks and policies."""
