"""`python -m adapterbank` is the command line."""

from adapterbank.cli.main import main

if __name__ == "__main__":
    main()
