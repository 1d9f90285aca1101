"""The command line: reads files, asks the library and prints; it decides nothing about windows itself."""
