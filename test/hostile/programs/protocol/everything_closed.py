# tries: close every descriptor that it was given
# outcome: succeeded|failed|exception
# says: contained
import os
os.write(1, b"contained\n")
os.closerange(0, 4096)
