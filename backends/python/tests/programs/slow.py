"""A policy whose bind takes some time, served with threads or, with --loop, with an event loop."""

from __future__ import annotations

import asyncio
import sys
import time

from extender_policy import Bind, BindAsk, Info, Node, Pod, Policy, Verb, Verdict, run, run_async


class Slow(Policy):
    """Prints when a bind begins."""

    def info(self) -> Info:
        return Info("slow", "1").filters(Verb.per_node()).binds()

    def filter(self, pod: Pod, node: Node) -> Verdict:
        return Verdict.accept()

    def bind(self, ask: BindAsk) -> Bind:
        print(f"binding {ask.name}", flush=True)
        time.sleep(float(ask.node))
        return Bind.BOUND


class SlowAsync(Slow):
    """The same as a coroutine."""

    async def bind(self, ask: BindAsk) -> Bind:  # type: ignore[override]
        print(f"binding {ask.name}", flush=True)
        try:
            await asyncio.sleep(float(ask.node))
        except asyncio.CancelledError:
            print(f"canceled {ask.name}", flush=True)
            raise
        return Bind.BOUND


if __name__ == "__main__":
    if "--loop" in sys.argv:
        sys.argv.remove("--loop")
        run_async(SlowAsync())
    run(Slow())
