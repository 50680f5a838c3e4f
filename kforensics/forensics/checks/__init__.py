"""What may be wrong with a log: a module for each family of findings, with its codes, notes and findings."""
