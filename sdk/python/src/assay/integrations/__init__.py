"""Adapters: what other packages call a sandbox, an interpreter or a reward function, on a fleet of Assay.

Each module needs the package that it is named after, which is not installed with this one. docs/integrations.md has the
versions that they are tested with, and what cannot be had.
"""
