"""What the kernels of several engines share: how a fused group is looped over, before a line of code is written."""
