package grade

import (
	"testing"

	"github.com/assay-run/assay/pkg/job"
)

// TestAwaiting checks that checks can await coroutine functions as in one process, or call them and get the result.
func TestAwaiting(t *testing.T) {
	t.Parallel()
	const code = `
import asyncio
running = most = 0
gone = []
async def f(x, delay=0.01):
    global running, most
    running += 1
    most = max(most, running)
    try:
        await asyncio.sleep(delay)
    except asyncio.CancelledError:
        gone.append(x)
        raise
    finally:
        running -= 1
    if x == 'raise': raise KeyError('k')
    if x == 'most': return most
    if x == 'gone': return gone
    return x
`
	for name, c := range map[string]struct {
		code, check string
		outcome     job.Outcome
	}{
		"await":                             {code, "async def test_it():\n    assert await f(3) == 3\n", job.Succeeded},
		"await, wrong":                      {code, "async def test_it():\n    assert await f(3) == 4\n", job.Failed},
		"a value":                           {code, "def check(candidate):\n    assert candidate(3) == 3\n", job.Succeeded},
		"a value in a coroutine":            {code, "import asyncio\nasync def test_it():\n    await asyncio.sleep(0)\n    assert f(3) == 3\n", job.Succeeded},
		"run":                               {code, "import asyncio\ndef check(candidate):\n    assert asyncio.run(candidate(3)) == 3\n    assert asyncio.run(candidate(4)) == 4\n", job.Succeeded},
		"run a main":                        {code, "import asyncio\ndef check(candidate):\n    async def main():\n        return [await candidate(i) for i in range(3)]\n    assert asyncio.run(main()) == [0, 1, 2]\n", job.Succeeded},
		"run_until_complete":                {code, "import asyncio\ndef check(c):\n    loop = asyncio.new_event_loop()\n    assert loop.run_until_complete(c(3)) == 3\n    loop.close()\n", job.Succeeded},
		"a variable":                        {code, "import asyncio\nasync def test_it():\n    c = f(3)\n    t = asyncio.create_task(f(4))\n    assert await c == 3 and await t == 4\n", job.Succeeded},
		"gather":                            {code, "import asyncio\nasync def test_it():\n    assert await asyncio.gather(f(1), f(2)) == [1, 2]\n    await asyncio.gather(*[f(i, 0.05) for i in range(5)])\n    assert await f('most') == 5\n", job.Succeeded},
		"gather takes no longer":            {code, "import asyncio, time\nasync def test_it():\n    t = time.monotonic()\n    await asyncio.gather(*[f(i, 0.5) for i in range(20)])\n    assert time.monotonic() - t < 4\n", job.Succeeded},
		"as_completed":                      {code, "import asyncio\nasync def test_it():\n    got = [await t for t in asyncio.as_completed([f(1, 0.6), f(2, 0.01)])]\n    assert got == [2, 1]\n", job.Succeeded},
		"wait_for":                          {code, "import asyncio\nasync def test_it():\n    assert await asyncio.wait_for(f(1), 5) == 1\n    try:\n        await asyncio.wait_for(f(2, 60), 0.2)\n    except asyncio.TimeoutError:\n        pass\n    else:\n        assert False\n    assert await f('gone') == [2]\n", job.Succeeded},
		"cancel":                            {code, "import asyncio\nasync def test_it():\n    t = asyncio.ensure_future(f(7, 60))\n    await asyncio.sleep(0.1)\n    t.cancel()\n    try:\n        await t\n        assert False\n    except asyncio.CancelledError:\n        pass\n    assert await f('gone') == [7]\n", job.Succeeded},
		"raises":                            {code, "import asyncio\nasync def test_it():\n    try:\n        await f('raise')\n        assert False\n    except KeyError as e:\n        assert e.args == ('k',)\n", job.Succeeded},
		"raises, and is wrong":              {code, "async def test_it():\n    assert await f('raise') == 1\n", job.Failed},
		"unittest":                          {code, "import unittest\nclass T(unittest.IsolatedAsyncioTestCase):\n    async def asyncSetUp(self): self.v = await f(1)\n    async def test_it(self):\n        self.assertEqual(await f(3), 3)\n        with self.assertRaises(KeyError): await f('raise')\n        self.assertEqual(self.v, 1)\n", job.Succeeded},
		"an async generator":                {"async def f(n):\n    for i in range(n): yield i\n", "import asyncio\ndef check(candidate):\n    async def m(): return [i async for i in candidate(3)]\n    assert asyncio.run(m()) == [0, 1, 2]\n", job.Succeeded},
		"async for":                         {"import asyncio\nasync def f(n):\n    for i in range(n):\n        await asyncio.sleep(0)\n        yield i\n", "async def test_it():\n    out = []\n    async for i in f(3): out.append(i)\n    assert out == [0, 1, 2]\n", job.Succeeded},
		"async with":                        {"import contextlib\nlog = []\n@contextlib.asynccontextmanager\nasync def f(x):\n    log.append(x)\n    yield log\n    log.append('out')\n", "async def test_it():\n    async with f(1) as l: assert l == [1]\n    async with f(2) as l: assert l == [1, 'out', 2]\n", job.Succeeded},
		"a coroutine function of the check": {"async def f(g, xs):\n    return [await g(x) for x in xs]\n", "import asyncio\nasync def double(x):\n    await asyncio.sleep(0)\n    return x * 2\ndef test_sync():\n    assert candidate(double, [1, 2]) == [2, 4]\n", job.Succeeded},
		"the same, awaited":                 {"async def f(g, xs):\n    return [await g(x) for x in xs]\n", "import asyncio\nasync def double(x):\n    await asyncio.sleep(0)\n    return x * 2\nasync def test_it():\n    assert await f(double, [1, 2]) == [2, 4]\n", job.Succeeded},
		"arguments changed":                 {"import asyncio\nasync def f(x):\n    x.append(1)\n    return 5\n", "def check(candidate):\n    x = []\n    assert candidate(x) == 5 and x == [1]\n", job.Succeeded},
		"no coroutine":                      {"def f(x): return x\n", "async def test_it():\n    assert await f(3) == 3\n", job.Failed},
		"a lock of the solution":            {"import asyncio\nlock = None\nasync def f(x):\n    global lock\n    lock = lock or asyncio.Lock()\n    async with lock:\n        await asyncio.sleep(0.01)\n        return x\n", "import asyncio\nasync def test_it():\n    assert await asyncio.gather(*(f(i) for i in range(4))) == [0, 1, 2, 3]\n", job.Succeeded},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := runTests(t, &job.Tests{Code: c.code, Function: "f", Check: c.check})
			if r.Outcome != c.outcome {
				t.Errorf("%s, want %s: %q", r.Outcome, c.outcome, r.Feedback)
			}
		})
	}
	t.Run("after its process has ended", func(t *testing.T) {
		t.Parallel()
		r := runTests(t, &job.Tests{Code: "import os\nasync def f(x):\n    if x == 1: os._exit(0)\n    return x\n", Function: "f",
			Check: "async def test_a():\n    assert await f(1) == 1\nasync def test_b():\n    x = [2]\n    x.append(x)\n    assert await f(x) is not None\nasync def test_c():\n    assert await f(3) == 3\n"})
		if r.Tests.Passed != 2 || r.Tests.Cases[0].Passed {
			t.Errorf("%+v", r.Tests.Cases)
		}
	})
	t.Run("methods", func(t *testing.T) {
		t.Parallel()
		r := runTests(t, &job.Tests{Code: "import asyncio\nclass Cache:\n    async def get(self, x):\n        await asyncio.sleep(0)\n        return x\n    async def __aenter__(self): return self\n    async def __aexit__(self, *a): pass\n", Function: "Cache",
			Check: "async def test_it():\n    c = Cache()\n    assert await c.get(3) == 3\n    async with Cache() as d: assert await d.get(4) == 4\n"})
		if r.Outcome != job.Succeeded {
			t.Errorf("%s: %q", r.Outcome, r.Feedback)
		}
	})
}
