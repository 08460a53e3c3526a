"""One script for each tool that tables are compared with; each runs in that tool's own environment."""
