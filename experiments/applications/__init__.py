"""The paper's four applications."""
