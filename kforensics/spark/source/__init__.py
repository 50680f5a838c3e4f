"""The Spark data source: decoded tables of files through ``spark.read.format("kforensics")``."""
