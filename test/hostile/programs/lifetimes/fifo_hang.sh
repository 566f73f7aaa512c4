# tries: hang on opening a pipe that nobody writes to
# outcome: timed_out
# policy: {"wall": "500ms"}
mkfifo /tmp/p; cat /tmp/p
