"""What an implementation asks of the operating system: seen, ordered, and (later) made to fail."""
