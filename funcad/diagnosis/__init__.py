"""The doctor: where values stop being finite and where derivatives are lost, by the user's line; see `funcad.debug.doctor`."""
