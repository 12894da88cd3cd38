"""The native engine (extra `fast`): fused groups and small programs as LLVM code for this machine."""
