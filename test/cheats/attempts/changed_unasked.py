"""Says that objects have changed which cannot, which are not there, and which are no objects of the call."""

import sys

calls = sys.modules["assay_graph"].Calls
round = [0]
def answer(self, *value):
    ref = {"$ref": [0, "function", "f"]}
    found = [[[n, ref]] for n in range(-1, 4)] + [[[0, [1]]], [[0, {"$obj": ["Point", [["same", ref]]]}]], [[1 << 40, []]], [["x", []]], [5], {"0": [1]}]
    round[0] += 1
    return {"value": None, "changed": found[round[0] % len(found)]}
calls.answer = answer
def solve(x, how="str", *more): return None
