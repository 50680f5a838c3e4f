"""A topic and its copy in another cluster: which records were copied, which are missing, and where they are."""
