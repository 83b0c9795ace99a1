"""What must survive: the ledger, the encoding of states, the keys of streams."""
