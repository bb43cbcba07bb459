"""Turn records of runs into tables, statistics and figures."""
