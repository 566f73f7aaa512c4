# tries: leave a pipeline behind that feeds itself
# outcome: succeeded
mkfifo /tmp/a /tmp/b
(while :; do cat </tmp/a >/tmp/b; done) >/dev/null 2>&1 </dev/null &
(while :; do cat </tmp/b >/tmp/a; done) >/dev/null 2>&1 </dev/null &
disown -a
echo contained
