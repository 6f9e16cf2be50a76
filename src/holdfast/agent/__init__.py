"""The node agent: the core's server, and the Python side that decides."""
