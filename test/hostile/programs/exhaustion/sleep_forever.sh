# tries: occupy its place by sleeping
# outcome: timed_out
# policy: {"wall": "500ms"}
exec sleep 1000000
