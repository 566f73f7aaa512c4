"""Raises exceptions of the harness."""

import sys
def solve(x): raise sys.modules["assay_wire"].Gone()
