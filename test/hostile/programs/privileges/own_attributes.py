# tries: relabel itself for the kernel's security modules and its audit
# outcome: succeeded
# gvisor: failed, such files are its own there
from hostile import *
for f, data in ("sessionid", b"1"), ("attr/current", b"unconfined"), ("attr/exec", b"unconfined"), ("attr/apparmor/current", b"changeprofile unconfined"), ("attr/smack/current", b"_"), ("uid_map", b"0 0 1"), ("gid_map", b"0 0 1"), ("setgroups", b"allow"), ("timens_offsets", b"1 1 0"), ("oom_adj", b"-17"), ("patch_state", b"1"):
    refused(f, write, "/proc/self/" + f, data)
contained()
