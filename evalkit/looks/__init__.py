"""What is seen of every block of users beside sums: histograms, curves, draws, clusters."""
