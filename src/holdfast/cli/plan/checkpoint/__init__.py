"""`holdfast plan checkpoint`."""
