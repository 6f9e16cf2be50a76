"""Bringing copies back, trimming surplus ones, merging drops: pure state machines."""
