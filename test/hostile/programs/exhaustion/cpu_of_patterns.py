# tries: burn its time in one call that no signal interrupts
# outcome: timed_out
# policy: {"wall": "2s"}
import re
re.match(r"(a|aa|a*)*$", "a" * 60 + "b")
