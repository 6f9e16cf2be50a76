"""A session on one host: its directory, its tiers, its processes and mounts."""
