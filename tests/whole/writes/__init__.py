"""Programs in plain NumPy that write into arrays, and what each of them must be under every transformation."""
