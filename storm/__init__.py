"""Attacks on the ledger: kills, losses of power and failing system calls, judged by a reader of its own."""
