"""`python -m ktrain` is the command `ktrain`."""

from ktrain.cli.main import entry

if __name__ == "__main__":
    entry()
