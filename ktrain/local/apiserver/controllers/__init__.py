"""What the server does by itself: garbage collection, namespaces, definitions, budgets, quotas."""
