"""The analysis of decoded logs: from tables of batches and records to findings; it never decodes bytes itself."""
