"""How an answer looks: JSON, YAML, tables."""
