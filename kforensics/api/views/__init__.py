"""How tables and batches show themselves in a notebook."""
