# tries: leave daemons behind, as a shell does
# outcome: succeeded
for i in 1 2 3 4; do nohup setsid sleep 600 >/dev/null 2>&1 </dev/null & done
disown -a
echo contained
