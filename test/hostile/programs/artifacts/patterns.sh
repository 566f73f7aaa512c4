# tries: have the patterns of artifacts take for ever to match
# outcome: succeeded
# policy: {"artifacts": {"paths": ["/workspace/**/a*a*a*a*a*a*a*a*a*a*a*b", "/workspace/**/**/**/**/**/x"], "max_bytes": "1Mi", "max_files": 10}}
name=$(printf 'a%.0s' $(seq 1 200))
mkdir -p /workspace/a/a/a/a/a/a/a/a/a/a/a/a
for n in $(seq 1 40); do : >/workspace/a/a/a/$name$n; done
echo contained
