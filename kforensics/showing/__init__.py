"""Tables, and the bytes of batches, that show themselves: HTML in a notebook, plain text elsewhere."""
