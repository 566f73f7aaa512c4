# tries: become root by a set-user-id program, its own and the image's
# outcome: succeeded
cp /usr/bin/id /tmp/id && chmod 6755 /tmp/id
before=$(id -u)
[ "$(/tmp/id -u)" = "$before" ] || echo "ESCAPED: /tmp/id"
for f in $(find / -xdev -perm /6000 -type f 2>/dev/null | head -50); do
	case $f in */su) [ "$(echo | timeout 2 $f -c 'id -u' root 2>/dev/null)" = 0 ] && echo "ESCAPED: $f";; esac
done
grep -E '^Cap(Eff|Prm|Inh|Bnd|Amb)' /proc/self/status | grep -v '0000000000000000$' && echo "ESCAPED: capabilities"
grep -q '^NoNewPrivs:	1' /proc/self/status || echo "ESCAPED: new privileges"
echo contained
