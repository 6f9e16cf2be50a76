"""Who owns which object: pure functions of a list of nodes."""
