# tries: exit successfully, before any message
# outcome: succeeded|failed
import os
os._exit(0)
