"""Reports before a row is read: their policy, what is asked of them, their calendar and entities, and their counts."""
