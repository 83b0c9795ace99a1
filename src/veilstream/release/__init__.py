"""Publishing for real: the loop on a ledger, one-time releases, tables and pictures."""
