"""Says of an exception that its arguments are references, and its class one of the setup that is none."""

import itertools, sys

ref = {"$ref": [0, "object", "f"]}
forms = itertools.cycle([
    {"type": "Wrong", "module": "solution", "mro": ["Wrong"], "message": "0", "args": [ref]},
    {"type": "Point", "module": "solution", "mro": ["Point"], "message": "0", "args": [{"$back": 1}]},
    {"type": "SkipTest", "module": "unittest.case", "mro": ["SkipTest", "BaseException"], "message": "0", "args": []},
    {"type": ["Wrong"], "module": ["solution"], "mro": [["x"]], "message": {}, "args": 7},
    {"type": "SystemExit", "module": "builtins", "mro": ["SystemExit"], "message": "", "args": [0]},
])
sys.modules["assay_solution"].Solution.exception = lambda self, e: next(forms)
def solve(x, how="str", *more): raise ValueError
