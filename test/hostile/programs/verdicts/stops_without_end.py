# tries: keep its parent busy with endless stops and continues
# outcome: timed_out
# policy: {"wall": "4s"}
# victim: yes
from hostile import *
me = os.getpid()
if os.fork() == 0:
    while True:
        os.kill(me, 19)
        os.kill(me, 18)
while True:
    pass
