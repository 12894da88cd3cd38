"""What `python -m funcad COMMAND` does."""
