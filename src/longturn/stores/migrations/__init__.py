"""How a store's tables came to be, one step a version; Alembic runs them when a store is opened."""
