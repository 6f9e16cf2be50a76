"""A whole cluster in one process, from one seed: the agents' own logic on a simulated network."""
