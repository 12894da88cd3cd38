"""Custom derivative and batching rules."""
