# tries: have the host run a program of its own at the next crash
# outcome: succeeded
from hostile import *
refused("core_pattern", write, "/proc/sys/kernel/core_pattern", b"|/proc/%P/root/tmp/x")
refused("core_pipe_limit", write, "/proc/sys/kernel/core_pipe_limit", b"1")
refused("modprobe", write, "/proc/sys/kernel/modprobe", b"/tmp/x")
refused("hotplug", write, "/proc/sys/kernel/hotplug", b"/tmp/x")
refused("uevent_helper", write, "/sys/kernel/uevent_helper", b"/tmp/x")
refused("poweroff_cmd", write, "/proc/sys/kernel/poweroff_cmd", b"/tmp/x")
refused("binfmt", write, "/proc/sys/fs/binfmt_misc/register", b":x:M::xx::/tmp/x:C")
contained()
