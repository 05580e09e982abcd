"""Where a report or a badge comes from, and whether it is what it says."""
