"""How a program or a command reaches agents: connections, routing, calls to all of them."""
