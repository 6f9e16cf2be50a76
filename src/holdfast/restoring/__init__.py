"""Bringing copies back, trimming what is too many, merging what was dropped: pure state machines."""
