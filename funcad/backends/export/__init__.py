"""Programs that leave Python."""
