"""Adapters that provide other packages' sandboxes, interpreters and reward functions on a fleet of Assay.

Each module needs the package after which it is named, and which is not installed with this one.
docs/integrations has the tested versions, and the missing features.
"""
