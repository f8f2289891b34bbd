"""HMASD: hierarchical multi-agent skill discovery, trained synchronously and strictly on-policy."""
