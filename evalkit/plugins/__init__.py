"""What other programs load by an entry point: MLflow's evaluator."""
