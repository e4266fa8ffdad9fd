"""What a neural model must beat."""
