"""The steps in which a share is measured, in their order: the earliest that fails is told."""

TRUTH, GAINS, TRAIN, SEGMENTS, RANKINGS, VALUES = range(6)
