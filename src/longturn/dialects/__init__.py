"""Dialects: one provider's message format each, read into core messages and rendered back without loss."""
