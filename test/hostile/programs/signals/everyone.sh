# tries: kill everybody it can see
# outcome: signaled|succeeded
# victim: yes
trap '' HUP INT TERM
kill -9 1 0 -1 2>/dev/null &
for s in HUP INT TERM USR1 STOP SEGV KILL; do kill -$s 1 2>/dev/null; done
sleep 0.3
kill -0 1 2>/dev/null || true
echo contained
