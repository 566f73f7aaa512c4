# tries: read and write the registers of the processor by its device files
# outcome: succeeded
# gvisor: failed, its kernel has a fuse and a tun of its own, for mounts and interfaces that a job may not make
from hostile import *
for n in range(4):
    for f in "msr", "cpuid", "microcode":
        refused(f, os.open, "/dev/cpu/%d/%s" % (n, f), os.O_RDWR)
for f in "/dev/cpu_dma_latency", "/dev/hpet", "/dev/nvram", "/dev/kvm", "/dev/vhost-net", "/dev/vhost-vsock", "/dev/fuse", "/dev/loop-control", "/dev/loop0", "/dev/mapper/control", "/dev/snapshot", "/dev/rfkill", "/dev/uinput", "/dev/vfio/vfio", "/dev/vsock", "/dev/userfaultfd", "/dev/dma_heap/system", "/dev/udmabuf", "/dev/ppp", "/dev/net/tun", "/dev/autofs", "/dev/btrfs-control", "/dev/cuse", "/dev/watchdog", "/dev/kmsg", "/dev/ptp0", "/dev/vda", "/dev/sda", "/dev/nvme0":
    refused(f, os.open, f, os.O_RDONLY)
contained()
