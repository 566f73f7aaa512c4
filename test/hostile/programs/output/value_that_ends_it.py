# tries: end the harness while it looks at the last value
# outcome: failed|exception|succeeded
import os
class V:
    def __repr__(self):
        os._exit(3)
    def __class__(self):
        os._exit(3)
V()
