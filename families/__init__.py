"""The nine task families. Each package has the same five rooms: spec, scene, task, metrics, verify."""
