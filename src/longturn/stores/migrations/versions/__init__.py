"""The steps, one module each; a released one is never edited."""
