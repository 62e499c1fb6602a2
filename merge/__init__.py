"""LMerge: one output from streams that differ physically and agree logically."""
