"""A whole cluster from one seed: the agents' own logic over a simulated network, and checkers."""
