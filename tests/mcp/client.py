"""Asks `shapewise mcp` through the official Python client; the argument is the program."""

import asyncio
import sys

from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client


async def main(program: str) -> None:
    async with stdio_client(StdioServerParameters(command=program, args=["mcp"])) as pipes:
        async with ClientSession(*pipes) as session:
            await session.initialize()
            tools = {tool.name: tool.model_dump(by_alias=True) for tool in (await session.list_tools()).tools}
            assert {"predict_gemm", "check", "search", "plan", "gpus"} <= tools.keys(), tools.keys()
            assert tools["plan"]["annotations"]["readOnlyHint"], tools["plan"]
            gemm = {"m": 8192, "n": 4096, "k": 4096, "gpu": "h100"}
            answer = (await session.call_tool("predict_gemm", gemm)).model_dump(by_alias=True)
            assert not answer["isError"], answer
            document = answer["structuredContent"]
            assert document["low_us"] < document["time_us"] < document["high_us"], document
            assert "(8192, 4096) x (4096, 4096) tn bf16" in answer["content"][0]["text"], answer
            wrong = (await session.call_tool("predict_gemm", {"m": 0})).model_dump(by_alias=True)
            assert wrong["isError"] and "`m` is 0" in wrong["content"][0]["text"], wrong


asyncio.run(main(sys.argv[1]))
