"""Tables in parts: exact sums that are added, and released together."""
