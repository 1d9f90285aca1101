"""`python -m longturn` is the command line."""

from longturn.cli.__main__ import main

if __name__ == "__main__":
    main()
