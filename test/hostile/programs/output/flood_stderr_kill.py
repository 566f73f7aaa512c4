# tries: flood the other stream where that is forbidden
# outcome: output_limit
# policy: {"stderr": {"limit": "1Ki", "on_exceed": "kill"}}
import os
while True:
    os.write(2, b"x" * 65536)
