"""The development side of f06 as a service: renderer processes, their socket, metered evaluations."""
