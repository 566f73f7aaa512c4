# tries: hold memory as arguments and environment of programs
# outcome: succeeded|out_of_memory|process_limit|failed
# victim: yes
export A=$(head -c 120000 /dev/zero | tr '\0' x)
for n in $(seq 1 12); do export "V$n=$A"; done
for n in $(seq 1 40); do sleep 2 "$A" 2>/dev/null & done
for n in $(seq 1 20); do sleep 1 & done
wait
echo contained
