"""Exits politely before anything is asked."""

import sys
sys.exit(0)
