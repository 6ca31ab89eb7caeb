"""`python -m simcap`: the same as the command `simcap`."""

from simcap.cli import main

if __name__ == "__main__":
    main()
