"""Keep publishing statistics about people from a changing dataset, under differential privacy."""
