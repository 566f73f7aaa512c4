# tries: reboot, sync and kill through sysrq
# outcome: succeeded
for c in s u b c e i o h; do
	if echo $c >/proc/sysrq-trigger; then echo "ESCAPED: sysrq $c"; exit 1; fi
done 2>/dev/null
echo 1 2>/dev/null >/proc/sys/kernel/sysrq && echo "ESCAPED: switch"
echo contained
