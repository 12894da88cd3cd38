"""The CUDA engine: fused groups as CUDA C++, compiled by NVRTC when a program needs them."""
