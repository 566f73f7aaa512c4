# tries: poison the interpreter that the next job is forked from
# outcome: succeeded|failed|exception
from hostile import *
import builtins, gc, json, sys, threading
builtins.print = None
builtins.open = None
builtins.__import__ = None
sys.modules.clear()
sys.path[:] = ["/tmp"]
sys.settrace(lambda *a: os._exit(1)) if False else None
gc.disable()
threading.stack_size(1 << 20)
json.dumps = json.loads = None
contained()
