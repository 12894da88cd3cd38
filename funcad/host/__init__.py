"""What touches Python and NumPy themselves: source lines, warnings, locks, forks, the state of a thread."""
