"""f03: tabletop physical reasoning, five interactive tasks through the metered simulator service."""
