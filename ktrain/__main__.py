"""`python -m ktrain` is the command `ktrain`."""

from ktrain.cli.main import main

if __name__ == "__main__":
    main()
