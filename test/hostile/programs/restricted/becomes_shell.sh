# tries: have a shell where no process may be started
# outcome: succeeded|failed|policy_violation|process_limit
# policy: {"subprocesses": false}
x=$(echo started 2>/dev/null)
[ -z "$x" ] || { echo "ESCAPED: $x"; exit 42; }
(echo started >/tmp/sub) 2>/dev/null
[ -e /tmp/sub ] && { echo "ESCAPED: a subshell"; exit 42; }
echo contained
