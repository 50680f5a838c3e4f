"""The library twins of the commands, and objects that show themselves in a notebook."""
