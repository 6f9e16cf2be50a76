"""Mounts: software and data sets as a read-only file system of every node."""
