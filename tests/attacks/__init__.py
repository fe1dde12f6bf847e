"""What an attacker, a careless operator or a broken machine may do, and what must not follow from it."""
