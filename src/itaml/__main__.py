"""`python -m itaml`."""

from itaml.cli.main import main

if __name__ == "__main__":
    main()
