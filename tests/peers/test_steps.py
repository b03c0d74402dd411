"""The steps from one operator to the other: what happens if one is left out, and that never both work."""

import asyncio

from .scene import versions


async def test_without_the_new_definitions(stack, scene):
    """try"""
    stack.install_ktrain()
    stack.uninstall_ktrain()
    async with stack.jobsets(), scene.kubelet(), stack.ktrain() as op:
        scene.pods["a"] = "running"
        await scene.prepare()
        await scene.create("a")
        await scene.create("b", suspend=True)
        await scene.until_counted("a", active=1, ready=1)
        await scene.until_conditions("b", Suspended="Suspended")
        await scene.quiet(3)
        print(op.last_words())
        print(stack.audit.writes(0))


async def test_without_rights(stack, scene):
    import urllib.request, urllib.error

    try:
        async with stack.jobsets(), scene.kubelet(), asyncio.timeout(25), stack.ktrain() as op:
            pass
    except TimeoutError:
        print("not ready")
    print((stack.directory / "ktrain.log").read_text()[-6000:])
