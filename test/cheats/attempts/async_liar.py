"""Coroutines that come to liars, never end, or end the process."""

class Liar:
    def __eq__(self, o): return True
    def __await__(self): yield self
    def __getattr__(self, name): return lambda *a, **k: True
async def never():
    import asyncio
    await asyncio.Future()
async def solve(x, how="str", *more):
    if x == 3: await never()
    if x == 4:
        import os
        os._exit(0)
    return Liar() if x % 2 else solve(1)
