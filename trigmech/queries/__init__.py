"""What can be measured of rows: one class for each kind of query, and what was measured of it."""
