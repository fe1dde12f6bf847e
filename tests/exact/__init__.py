"""Exact output probabilities on small histograms, against the guarantees that the mechanisms claim."""
