"""How results are shown: terminal table, badge, page, comparison, GitHub."""
