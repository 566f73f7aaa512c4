# tries: make namespaces with the tool for it, and mount in them
# outcome: succeeded
unshare -Ur true 2>/dev/null && echo "ESCAPED: user"
unshare -Urm mount -t tmpfs none /mnt 2>/dev/null && echo "ESCAPED: mount"
unshare -Urpf --mount-proc true 2>/dev/null && echo "ESCAPED: pid"
nsenter -t 1 -a true 2>/dev/null && echo "ESCAPED: nsenter"
echo contained
