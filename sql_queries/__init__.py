"""SQL to write queries in: text becomes the query that would be written by hand.

script.py      statements, one after the other: what `gl.sql` and `gapless run QUERY.sql` read

dialect.py     the grammar, over sqlglot's `risingwave`: parser.py, clause.py, table_functions.py
limits.py      how long and how deep a text may be
places.py      where in the text something stands; errors with a caret

select.py      a SELECT; relation.py is what FROM gives it, items.py its columns
from_.py       FROM: tables, unions, subqueries; joins.py, bands.py, windows.py
group_by.py    GROUP BY and aggregates, aggregate_calls.py; over.py OVER; top_n.py LIMIT, ROW_NUMBER
expressions.py expressions; functions.py, aggregates.py, casts.py, intervals.py what they use
"""
