"""Run coroutines of a solution with the event loop of its check.

A coroutine of the solution is a task in a loop at the solution's side. While the check's loop awaits one and is
otherwise idle, it lets that loop run. So tasks run concurrently, and timeouts and cancellation work.

Standard library only, for Python 3.8 and later.
"""

LONGEST = 0.05  # seconds for which the solution's loop runs before the check's loop is polled


def expected(code):
    """Report whether check code awaits calls, and so expects coroutines from the solution."""
    import ast

    try:
        tree = ast.parse(code.lstrip("\ufeff"))
    except (SyntaxError, ValueError):
        return False
    own = set()
    for node in ast.walk(tree):
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            own.update((a.asname or a.name).partition(".")[0] for a in node.names)
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            own.add(node.name)
    own.add("self")
    return any(_foreign(ast, value, own) for node in ast.walk(tree) for value in _awaited(ast, node))


def _awaited(ast, node):
    """Return the expressions that a node awaits."""
    if isinstance(node, ast.Await):
        return [node.value]
    if isinstance(node, (ast.AsyncFor, ast.comprehension)):
        return [node.iter] if isinstance(node, ast.AsyncFor) or node.is_async else []
    if isinstance(node, ast.AsyncWith):
        return [item.context_expr for item in node.items]
    if isinstance(node, ast.Call):
        name = getattr(node.func, "attr", getattr(node.func, "id", ""))
        if name in ("run", "gather", "wait_for", "create_task", "ensure_future", "run_until_complete", "shield", "wait", "as_completed"):
            return [inner for a in node.args for inner in ast.walk(a)]
    return []


def _foreign(ast, node, own):
    """Report whether an expression calls a function that the check does not define."""
    if not isinstance(node, ast.Call):
        return False
    func = node.func
    while isinstance(func, (ast.Attribute, ast.Call, ast.Subscript)):
        func = func.func if isinstance(func, ast.Call) else func.value
    return isinstance(func, ast.Name) and func.id not in own


class Driver:
    """The tasks that one loop of the check waits for."""

    def __init__(self, side, loop):
        self.side, self.loop, self.waiting, self.due = side, loop, {}, False

    async def run(self, ref, what, args):
        """Run an asynchronous operation on an object of the solution and return its value."""
        side = self.side
        number = side.value({"op": "spawn", "ref": ref, "name": what, "args": [side.codec.encode(a) for a in args]})
        future = self.waiting[number] = self.loop.create_future()
        self.schedule()
        try:
            return await future
        finally:
            if self.waiting.pop(number, None) is not None and not future.done() or future.cancelled():
                side.value({"op": "cancel", "task": number})

    def schedule(self):
        if not self.due:
            self.due = True
            self.loop.call_soon(self.drive)

    def drive(self):
        """Run the solution's loop until one of its tasks ends or this loop is not idle."""
        self.due = False
        waiting = {n: future for n, future in self.waiting.items() if not future.done()}
        if not waiting:
            return
        try:
            ended = self.side.ended({"op": "drive", "tasks": list(waiting), "seconds": self.seconds()})
            for n, value, e in ended:
                future = waiting[n]
                if e is None:
                    future.set_result(value)
                else:
                    future.set_exception(e)
        except BaseException as e:
            for future in waiting.values():
                if not future.done():
                    future.set_exception(RuntimeError(str(e)) if isinstance(e, StopIteration) else e)
        self.schedule()

    def seconds(self):
        """Return how long this loop is idle."""
        if getattr(self.loop, "_ready", True):
            return 0
        timers = getattr(self.loop, "_scheduled", None)
        if timers is None:
            return 0.002
        return max(min([LONGEST] + [t.when() - self.loop.time() for t in timers[:1]]), 0)


async def perform(side, ref, what, *args):
    import asyncio

    loop = asyncio.get_running_loop()
    driver = getattr(side, "driver", None)
    if driver is None or driver.loop is not loop:
        driver = side.driver = Driver(side, loop)
    return await driver.run(ref, what, args)


def finish(coroutine):
    """Run a coroutine of the check to its end. Another loop may be waiting for it."""
    import asyncio

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(coroutine)
    import concurrent.futures

    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, coroutine).result()
