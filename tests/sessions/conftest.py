"""Both databases for the tests of sessions, as those of the stores have them."""

from tests.stores.conftest import anyio_backend, place, postgres, store, tamper

__all__ = ["anyio_backend", "place", "postgres", "store", "tamper"]
