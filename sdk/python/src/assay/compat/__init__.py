"""Classes that stand in for those of other projects: same methods, same results, and a fleet beneath.

They need nothing but this package. Adapters that plug into a package that is installed are in assay.integrations.
"""
