"""Bringing copies back, trimming those that are too many, merging drops: pure state machines."""
