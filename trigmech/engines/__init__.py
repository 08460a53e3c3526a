"""Tables that several processes or machines measure: each answers for its pieces with sums, which are added."""
