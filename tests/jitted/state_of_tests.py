"""A module with a name that tests change."""

scale = 2.0
