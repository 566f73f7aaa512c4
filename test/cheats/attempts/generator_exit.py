"""Raises what ends a generator in silence."""

def solve(x): raise GeneratorExit
