"""What may refuse or change an object on its way: plugins, webhooks, and what they are told."""
