"""Values that many kinds have: amounts, addresses, selectors, percentages."""
