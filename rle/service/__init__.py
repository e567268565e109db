"""The metered simulator service: an agent acts on a simulator that it cannot read, rewind or forge."""
