"""Statements as people and tools write them, each with what the product makes of it.

shop        the rows and the policy that the statements ask about
entries     the files `*.sql` beside this: reading and writing them
exact       answers without noise, and what DuckDB makes of the same statement

python -m tests.query.corpus            what differs from the files
python -m tests.query.corpus --write    write it into the files; read the diff
"""
