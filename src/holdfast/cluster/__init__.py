"""Sessions: starting agents, finding them, reaching them."""
