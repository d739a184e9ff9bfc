"""From ranks to values: lists gathered by their conventions, who counts, blocks measured."""
