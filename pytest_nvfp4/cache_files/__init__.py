"""Plan-cache files: read, judged and described."""
