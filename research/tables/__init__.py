"""Tables of codes, generated or real, and ways to publish them."""
