"""`jit`: its call, its cache, its inspection."""
