"""`job.space`: arrays in cells over the agents of a session, and the service behind it."""
