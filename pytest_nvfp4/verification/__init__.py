"""Whether a report or a badge is what it says: `proof` verifies, `result_files` reads the files."""
