# tries: learn the host's names from its control group
# outcome: succeeded
from hostile import *
import re
text = open("/proc/self/cgroup").read() + open("/proc/self/mountinfo").read()
if os.environ["HOSTILE_CGROUP"] in text:
    escaped(text)
contained()
