"""Who belongs to a session."""
