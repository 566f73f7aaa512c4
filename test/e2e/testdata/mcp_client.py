"""Uses the tools of a fleet by the official Python client: mcp_client.py URL TOKEN ASSAY.

Over HTTP and over the standard input and output of ASSAY, in the newest version of the protocol and
with the handshake of older ones. It ends with an assertion if something is not as it should be.
"""

import asyncio
import json
import sys

import httpx2
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client


async def use(client: Client) -> None:
    tools = {tool.name for tool in (await client.list_tools()).tools}
    assert {"run_python", "run_command", "create_session", "execute", "close_session", "read_artifact"} <= tools, tools

    ran = await client.call_tool("run_python", {"code": "print(x * 2)", "variables": {"x": 21}, "timeout": 30})
    assert not ran.is_error and ran.structured_content["success"] and ran.structured_content["stdout"] == "42\n", ran
    assert json.loads(ran.content[0].text) == ran.structured_content, ran.content
    assert {"success", "stdout", "stderr", "duration_ms", "diagnostics"} <= ran.structured_content.keys()

    failed = await client.call_tool("run_python", {"code": "1/0"})
    assert not failed.is_error and not failed.structured_content["success"], failed
    assert failed.structured_content["diagnostics"][0]["message"].startswith("ZeroDivisionError"), failed

    wrong = await client.call_tool("run_python", {"code": "1", "timeout": -1})
    assert wrong.is_error and "timeout" in wrong.content[0].text, wrong

    session = (await client.call_tool("create_session", {})).structured_content["session_id"]
    await client.call_tool("execute", {"session_id": session, "code": "y = 7"})
    kept = await client.call_tool("execute", {"session_id": session, "code": "y"})
    assert kept.structured_content["value"] == "7", kept
    await client.call_tool("close_session", {"session_id": session})

    await cancel(client)


async def cancel(client: Client) -> None:
    """Cancels a call while it runs: after its first progress message."""
    begun = asyncio.Event()

    async def progress(at: float, total: float | None, message: str | None) -> None:
        if "running" in (message or ""):
            begun.set()

    call = asyncio.create_task(
        client.call_tool("run_python", {"code": "while True: pass", "timeout": 600}, progress_callback=progress)
    )
    await asyncio.wait_for(begun.wait(), 60)
    call.cancel()
    try:
        await call
    except asyncio.CancelledError:
        return
    raise AssertionError("a canceled call has an answer")


async def main(url: str, token: str, assay: str) -> None:
    process = StdioServerParameters(command=assay, args=["--url", url, "mcp"], env={"ASSAY_TOKEN": token})
    for mode in ("auto", "legacy"):
        async with httpx2.AsyncClient(headers={"Authorization": f"Bearer {token}"}, timeout=120) as http:
            async with Client(streamable_http_client(url + "/mcp", http_client=http), mode=mode) as client:
                await use(client)
        async with Client(process, mode=mode) as client:
            await use(client)


asyncio.run(main(*sys.argv[1:]))
