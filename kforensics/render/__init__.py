"""Tables to eyes and files: every result in every format."""
