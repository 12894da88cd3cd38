"""Values that can be written: handles, views, and what is written in place."""
