"""Says that arguments were changed that cannot be, and that there are some which there are not."""

import sys

side = sys.modules["assay_solution"].Solution
def call(self, target, m):
    ref = {"$ref": [0, "function", "f"]}
    return {"op": "return", "value": None, "changed": {"0": ref, "1": "0", "2": {"$obj": ["Point", [["same", ref]]]}, "9": [1], "x": [], "-1": [ref]}}
side.call = call
def solve(x, how="str", *more): return None
