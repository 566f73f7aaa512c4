"""`python -m assay_fleet` runs assay."""

from . import main

main()
