"""What runs pods or keeps them: deployments and their like, budgets, autoscalers, gangs."""
