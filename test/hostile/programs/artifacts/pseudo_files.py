# tries: have files of the kernel taken for artifacts
# outcome: succeeded
# policy: {"artifacts": {"paths": ["/proc/self/environ", "/proc/**", "/sys/**", "/dev/**", "/etc/passwd", "/run/assay/**"], "max_bytes": "1Mi", "max_files": 50}}
from hostile import *
contained()
