"""What is seen of every block beside sums: histograms, curves, draws, weights and clusters."""
