"""Pages for the terminal: one module per command, built from `text`, `bars` and `tables`.

Text that came from outside is data. It is never read as markup, and its control characters are made visible.
"""
