"""Tables that several processes or machines measure together: each answers for its pieces with sums, which are added."""
