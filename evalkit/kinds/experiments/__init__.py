"""Online experiments: logs of exposures and events, to units, to effects, to a report."""
