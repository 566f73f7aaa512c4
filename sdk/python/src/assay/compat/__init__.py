"""Replacements of classes of other projects: same methods and results, on a fleet.

They need only this package. Adapters for installed packages are in assay.integrations.
"""
