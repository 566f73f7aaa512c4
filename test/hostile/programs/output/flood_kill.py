# tries: flood its output where that is forbidden
# outcome: output_limit
# policy: {"stdout": {"limit": "1Ki", "on_exceed": "kill"}}
import os
while True:
    os.write(1, b"x" * 65536)
