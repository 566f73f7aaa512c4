"""python -m assay_fleet is assay."""

from . import main

main()
