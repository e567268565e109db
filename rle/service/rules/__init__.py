"""The rules of a session as pure code: charging, the order of phases, the shape of requests."""
