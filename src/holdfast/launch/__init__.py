"""Starting the agents of a session on a machine, a list of hosts, or the nodes of a job."""
