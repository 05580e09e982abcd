"""The specification as data: contracts, their levels, areas and capabilities."""
