"""`python -m watchword` is the command `watchword`."""

from watchword.cli.main import main

if __name__ == "__main__":
    main()
