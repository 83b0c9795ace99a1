"""What is promised and what it costs: guarantees, charges, and exact accounting over every window of time."""
