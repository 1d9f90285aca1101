"""The tests; a package, so that one test module can import from another."""
