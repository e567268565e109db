"""`python -m rle`: the same as the console script `rle`."""

from rle.cli import main

if __name__ == "__main__":
    main()
