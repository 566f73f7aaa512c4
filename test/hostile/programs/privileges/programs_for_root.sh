# tries: become root by every program that is made for that
# outcome: succeeded
for p in su sudo doas pkexec newgrp chsh chfn passwd mount umount fusermount ping unix_chkpwd newuidmap newgidmap chage gpasswd expiry ssh-keysign crontab at; do
	file=$(type -P $p) || continue
	out=$(timeout 5 $file -c 'id -u' </dev/null 2>/dev/null)
	if [ "$out" = 0 ]; then echo "ESCAPED: $p"; exit 42; fi
	if timeout 5 $file 1 0 0 1 </dev/null >/dev/null 2>&1 && [ "$p" = newuidmap ]; then echo "ESCAPED: $p"; exit 42; fi
done
mkdir -p /workspace/d
if mount -t tmpfs x /workspace/d 2>/dev/null; then echo ESCAPED: a mount; exit 42; fi
[ "$(id -u)" != 0 ] && echo contained
