"""Agents to break on purpose: local clusters, fault plans, and a file system that counts.

Public, for the tests of programs that use Holdfast; docs/reference/testing.md tells how.
"""
