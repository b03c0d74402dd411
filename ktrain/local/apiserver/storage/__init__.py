"""Objects, their versions and who watches them."""
