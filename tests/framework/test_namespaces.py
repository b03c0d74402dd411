"""A cache that is limited to some namespaces: each has a list and a watch of its own, and the informer is one."""

from contextlib import asynccontextmanager

import anyio
import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ktrain.api import core
from ktrain.api.core import NODES, PODS, SECRETS
from ktrain.api.meta import Key
from ktrain.framework import Operator, Settings
from ktrain.framework.cache.cache import Cache
from ktrain.framework.cache.informer import Informer, Scope
from ktrain.framework.cache.intake import Intake, Taken
from ktrain.framework.client.client import Client
from ktrain.framework.errors import CacheSyncTimeout, Forbidden, Status
from ktrain.framework.serving.health import Note, cache_check
from ktrain.framework.writes import Write, recording
from ktrain.local.apiserver.server import ApiServer
from ktrain.testing.time import simulate

from .following import Mirror, Recorder, bookmark, event, failure, running, watches

FOREVER = float("inf")
NAMES = ("x", "y")
WATCHED = ("a", "b")
NAMESPACES = (*WATCHED, "c")


def secret(namespace, name, version, uid="", *, mine=True):
    labels = {"mine": "1"} if mine else {}
    meta = {"namespace": namespace, "name": name, "resourceVersion": str(version), "uid": uid or f"uid-{name}"}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {**meta, "labels": labels}}


def synced(namespace, *names):
    return [*(event("ADDED", secret(namespace, name, 3)) for name in names), bookmark(5, end=True)]


def is_mine(obj):
    return "mine" in obj.metadata.labels


# The same events, to an informer of all namespaces and to one of some


class Followed:
    """An informer, fed line by line as its reflectors feed it."""

    def __init__(self, scope):
        self.informer = Informer(SECRETS, scope)
        self.informer.add_index("name", lambda obj: (obj.metadata.name,))
        self.mirror = Mirror()
        self.informer.add_handler(self.mirror)
        self.intakes = {
            part.scope.namespace: (part, Intake(SECRETS, part, part.record, holds=is_mine))
            for part in self.informer.partitions
        }

    def take(self, namespace, line):
        _, intake = self.intakes.get("") or self.intakes.get(namespace) or (None, None)
        if intake is not None:
            intake.take(msgspec.json.encode(line))

    async def list_again(self, namespace, objects, version):
        """List one namespace; all of them, where they are listed together."""
        for followed, (part, intake) in self.intakes.items():
            if followed not in ("", namespace):
                continue
            intake.begin(resumed=False)
            for obj in objects:
                if followed in ("", obj["metadata"]["namespace"]):
                    intake.take(msgspec.json.encode(event("ADDED", obj)))
            assert intake.take(msgspec.json.encode(bookmark(version, end=True))) is Taken.INITIAL_END
            await part.replace(intake.content.objects, version, intake.content.left_out)
            intake.version = str(version)
            intake.begin(resumed=True)


class Histories:
    """What happens on a server, and what both informers make of it."""

    def __init__(self):
        self.all, self.some = Followed(Scope()), Followed(Scope(WATCHED))
        self.there, self.version, self.lines, self.writes = {}, 0, [], []

    async def start(self):
        for namespace in NAMESPACES:
            await self.list_again(namespace)

    async def list_again(self, namespace):
        for followed in (self.all, self.some):
            await followed.list_again(namespace, list(self.there.values()), self.version)

    def change(self, namespace, name, what):
        self.version += 1
        known = self.there.get((namespace, name))
        if what == "delete":
            if known is None:
                return
            del self.there[namespace, name]
            obj = secret(namespace, name, self.version, known["metadata"]["uid"])
            line = event("DELETED", obj)
            self.writes.append(Write("", "secrets", Key(namespace, name), obj["metadata"]["uid"], 0, {}))
        else:
            fresh = known is None or what == "other"
            uid = f"uid-{self.version}" if fresh else known["metadata"]["uid"]
            obj = self.there[namespace, name] = secret(namespace, name, self.version, uid, mine=what != "foreign")
            line = event("MODIFIED" if known else "ADDED", obj)
            labels = obj["metadata"]["labels"]
            self.writes.append(Write("", "secrets", Key(namespace, name), uid, self.version, labels))
        self.lines.append((namespace, line))
        self.tell(namespace, line)

    def repeat(self, number):
        """Send once more what was sent before."""
        if self.lines:
            self.tell(*self.lines[number % len(self.lines)])

    def tell(self, namespace, line):
        for followed in (self.all, self.some):
            followed.take(namespace, line)

    def check(self):
        every, some = self.all.informer, self.some.informer
        for read in (lambda one: one.list(), *(lambda one, name=name: one.by_index("name", name) for name in NAMES)):
            expected = {obj.metadata.key: obj for obj in read(every) if obj.metadata.namespace in WATCHED}
            assert {obj.metadata.key: obj for obj in read(some)} == expected
        for namespace in WATCHED:
            assert some.list(namespace) == sorted(every.list(namespace), key=some.list(namespace).index)
            for name in NAMES:
                key = Key(namespace, name)
                assert some.get(key) == every.get(key)
                assert some.leaves_out(key) == every.leaves_out(key)
                future = Write("", "secrets", key, "u", self.version + 1, {})
                assert not some.shows(future)
        assert some.get(Key("c", "x")) is None
        assert some.shows(Write("", "secrets", Key("c", "x"), "u", 10**9, {}))
        for write in self.writes:
            assert every.shows(write)
            assert some.shows(write)
        assert self.some.mirror.objects == {obj.metadata.key: obj for obj in some.list()}
        assert len(some) == len(self.some.mirror.objects) == some.statistics().objects


STEPS = st.lists(
    st.one_of(
        st.tuples(
            st.just("change"),
            st.sampled_from(NAMESPACES),
            st.sampled_from(NAMES),
            st.sampled_from(("put", "put", "other", "foreign", "delete")),
        ),
        st.tuples(st.just("repeat"), st.integers(0, 30)),
        st.tuples(st.just("list_again"), st.sampled_from(NAMESPACES)),
    ),
    max_size=30,
)


@settings(max_examples=150, deadline=None)
@given(STEPS)
def test_with_the_same_events_it_shows_what_an_informer_of_all_namespaces_shows(steps):
    async def play():
        histories = Histories()
        await histories.start()
        for what, *arguments in steps:
            done = getattr(histories, what)(*arguments)
            if done is not None:
                await done
            histories.check()

    anyio.run(play)


# From a server


def test_only_the_namespaces_are_asked_for_and_own_writes_are_awaited_in_these_only():
    async def main(env):
        server = ApiServer(env)
        user = Client(server.transport(), env, field_manager="user")
        for namespace in NAMESPACES:
            await user.create(core.NAMESPACES, {"metadata": {"name": namespace}})
            await user.create(SECRETS, secret(namespace, "x", ""))
        paths = []
        transport = Listening(server.transport(), paths)
        async with running(transport, env, namespaces=WATCHED) as cache:
            informer = cache.informer(SECRETS)
            nodes = cache.informer(NODES)
            await cache.wait_for_sync(10)
            with recording() as writes:
                await user.create(SECRETS, secret("c", "new", ""))
                await user.create(SECRETS, secret("b", "new", ""))
            before, shown = cache.behind(writes), await cache.wait_for_writes(writes)
            content = [str(obj.metadata.key) for obj in informer.list()]
            return sorted(set(paths)), before, shown, content, nodes.synced, str(informer), set(cache.statistics())

    paths, before, shown, content, has_nodes, name, looks = simulate(main)
    assert paths == ["/api/v1/namespaces/a/secrets", "/api/v1/namespaces/b/secrets", "/api/v1/nodes"]
    assert (before[1].key, shown, has_nodes) == (Key("b", "new"), True, True)
    assert content == ["a/x", "b/x", "b/new"]
    assert looks == {"secrets in a, b", "nodes"}
    assert name == "secrets in a, b"


class Listening:
    """A transport that notes the paths of lists and watches."""

    def __init__(self, transport, paths):
        self._transport = transport
        self._paths = paths

    def request(self, method, path, **options):
        self._paths.append(path)
        return self._transport.request(method, path, **options)

    def stream(self, path, **options):
        self._paths.append(path)
        return self._transport.stream(path, **options)

    async def aclose(self):
        await self._transport.aclose()


def test_a_list_of_one_namespace_replaces_the_objects_of_this_namespace_only(script):
    expired = event("ERROR", failure(410, "Expired"))
    script.streams += [[*synced("a", "x", "y"), 6.0, expired], [*synced("b", "x"), FOREVER]]
    script.streams.append([event("ADDED", secret("a", "z", 8)), bookmark(9, end=True), FOREVER])

    async def main(env):
        seen = []
        async with running(script, env, namespaces=WATCHED) as cache:
            informer = cache.informer(SECRETS)
            informer.add_handler(Recorder(seen))
            await env.clock.sleep(1)
            first = informer.synced, informer.version
            await env.clock.sleep(9)
            return first, seen, [str(obj.metadata.key) for obj in informer.list()], informer.statistics()

    first, seen, content, look = simulate(main)
    assert first == (True, 5)
    assert seen[:3] == [("initial", "x"), ("initial", "y"), ("initial", "x")]
    assert seen[3:] == [("delete", "x"), ("delete", "y"), ("add", "z")]
    assert content == ["a/z", "b/x"]
    assert (look.relists["expired"], look.version) == (1, 5)


def refused(namespace):
    message = (
        f'secrets is forbidden: User "me" cannot list resource "secrets" in API group "" in the namespace "{namespace}"'
    )
    return (403, failure(403, "Forbidden", message))


def test_a_namespace_that_may_not_be_read_is_named_and_holds_nobody_up_until_it_may_be(script):
    script.streams += [[*synced("a", "x"), FOREVER], *[refused("b")] * 4, [*synced("b", "y"), FOREVER]]

    async def main(env):
        seen = []
        async with running(script, env, namespaces=WATCHED) as cache:
            informer = cache.informer(SECRETS)
            informer.add_handler(Recorder(seen))
            await cache.wait_for_sync(5)
            early = informer.synced, [str(obj.metadata.key) for obj in informer.list()]
            note, look = cache_check(cache)(), informer.statistics()
            await env.clock.sleep(200)
            late = informer.synced, [str(obj.metadata.key) for obj in informer.list()]
            return early, note, look, late, cache_check(cache)(), seen

    early, note, look, late, healthy, seen = simulate(main)
    assert early == (True, ["a/x"])
    assert isinstance(note, Note)
    assert note.startswith("secrets in a, b: namespace b: ")
    assert note.endswith("grant this identity `list` and `watch` there, or watch this namespace no more")
    assert (look.synced, look.forbidden, look.shut, look.age_s is not None) == (True, False, ("b",), True)
    assert late == (True, ["a/x", "b/y"])
    assert healthy is None
    assert seen == [("initial", "x"), ("initial", "y")]


def test_a_namespace_that_is_deleted_later_leaves_the_others_ready(script):
    gone = [5.0, event("DELETED", secret("b", "y", 8))]
    script.streams += [[*synced("a", "x"), FOREVER], [*synced("b", "y"), *gone], *[refused("b")] * 9]

    async def main(env):
        async with running(script, env, namespaces=WATCHED) as cache:
            informer = cache.informer(SECRETS)
            await cache.wait_for_sync(5)
            await env.clock.sleep(60)
            return informer.synced, [str(obj.metadata.key) for obj in informer.list()], cache_check(cache)()

    is_synced, content, check = simulate(main)
    assert (is_synced, content) == (True, ["a/x"])
    assert isinstance(check, Note)


async def half_refused(env, changes):
    """Follow ConfigMaps, which may be read in both namespaces, and Secrets, which may be in the first."""
    server = ApiServer(env)
    user = Client(server.transport(), env, field_manager="user")
    for namespace in WATCHED:
        await user.create(core.NAMESPACES, {"metadata": {"name": namespace}})
    transport = Refusing(server.transport())
    async with running(transport, env, namespaces=WATCHED) as cache:
        informers = [cache.informer(SECRETS), cache.informer(core.CONFIG_MAPS)]
        looks = []
        for refused, wait_s in changes:
            transport.refused = refused
            await env.clock.sleep(wait_s)
            check = cache_check(cache)()
            is_ready = check is None or isinstance(check, Note)
            looks.append(([one.synced for one in informers], is_ready, [one.statistics().shut for one in informers]))
        return looks


class Refusing:
    """A transport on which some paths are forbidden."""

    refused = ()

    def __init__(self, transport):
        self._transport = transport

    def request(self, method, path, **options):
        self._check(path)
        return self._transport.request(method, path, **options)

    @asynccontextmanager
    async def stream(self, path, **options):
        self._check(path)
        async with self._transport.stream(path, **options) as stream:
            yield stream

    def _check(self, path):
        if path in self.refused:
            raise Forbidden(Status(code=403, message="not here"), method="GET", path=path)

    async def aclose(self):
        await self._transport.aclose()


SECRETS_OF_B, CONFIG_MAPS_OF_B = "/api/v1/namespaces/b/secrets", "/api/v1/namespaces/b/configmaps"
ALL_OF_B = (SECRETS_OF_B, CONFIG_MAPS_OF_B)


def test_a_namespace_of_which_some_kinds_may_be_read_is_waited_for():
    changes = [((SECRETS_OF_B,), 100), (ALL_OF_B, 700), ((), 100)]
    half, none, all_ = simulate(lambda env: half_refused(env, changes))

    assert half == ([False, True], False, [(), ()])
    assert none == ([True, True], True, [("b",), ("b",)])
    assert all_ == ([True, True], True, [(), ()])


def test_the_watches_of_a_deleted_namespace_may_end_one_after_the_other():
    changes = [((), 10), ((SECRETS_OF_B,), 700), ((SECRETS_OF_B,), 900), (ALL_OF_B, 700)]
    well, ending, half, none = simulate(lambda env: half_refused(env, changes))

    assert well == ([True, True], True, [(), ()])
    assert ending == ([True, True], True, [(), ()])
    assert half == ([True, True], False, [(), ()])
    assert none == ([True, True], True, [("b",), ("b",)])


def test_who_may_read_none_of_the_namespaces_has_no_content(script):
    script.streams += [refused("a"), refused("b")] * 9

    async def main(env):
        async with running(script, env, namespaces=WATCHED) as cache:
            informer = cache.informer(SECRETS)
            with pytest.raises(CacheSyncTimeout) as late:
                await cache.wait_for_sync(5)
            return str(late.value), cache_check(cache)(), informer.statistics()

    late, check, look = simulate(main)
    assert "secrets in a, b (namespace a: " in late
    assert "; namespace b: " in late
    assert not isinstance(check, Note)
    assert check.endswith("grant this identity `list` and `watch` on the kind, and it goes on without a restart")
    assert (look.synced, look.forbidden, look.shut) == (False, True, ())


def test_a_kind_that_is_missing_is_waited_for_in_every_namespace(script):
    missing = (404, failure(404, "NotFound"))
    script.streams += [missing, missing, [*synced("a", "x"), FOREVER], [*synced("b", "x"), FOREVER]]

    async def main(env):
        async with running(script, env, namespaces=WATCHED) as cache:
            informer = cache.informer(SECRETS)
            await cache.wait_for_sync(5)
            before = informer.missing, informer.synced
            await informer.wait_for_sync()
            return before, (informer.missing, informer.synced, len(informer))

    assert simulate(main) == ((True, False), (False, True, 2))


def test_its_last_user_ends_all_of_its_watches(script):
    script.streams += [[*synced("a", "x"), FOREVER], [*synced("b", "x"), FOREVER]]

    async def main(env):
        async with running(script, env, namespaces=WATCHED) as cache:
            informer = cache.informer(SECRETS)
            await cache.wait_for_sync(5)
            cache.release(informer)
            await env.clock.sleep(1000)
            with pytest.raises(RuntimeError, match="was released"):
                await informer.wait_for_sync()
            return len(informer), len(watches(script))

    assert simulate(main) == (0, 2)


def test_a_subscriber_hears_of_all_namespaces_and_leaves_all(script):
    later = [5.0, event("MODIFIED", secret("b", "x", 7)), FOREVER]
    script.streams += [[*synced("a", "x"), FOREVER], [*synced("b", "x"), *later]]

    async def main(env):
        async with running(script, env, namespaces=WATCHED) as cache:
            with cache.informer(SECRETS).subscribe() as changes:
                found = [await anext(changes) for _ in range(3)]
            await env.clock.sleep(10)
            return [(str(one.key), one.old is not None) for one in found], len(changes)

    assert simulate(main) == ([("a/x", False), ("b/x", False), ("b/x", True)], 0)


@pytest.mark.parametrize("namespaces", [("a", "a"), ("a", "")])
def test_namespaces_that_cannot_be_are_refused(script, namespaces):
    async def main(env):
        with pytest.raises(ValueError, match="the namespaces of a cache must be names, each once"):
            Cache(Client(script, env, field_manager="test"), env, namespaces=namespaces)

    simulate(main)


def test_an_informer_of_another_namespace_is_refused_and_one_of_a_watched_one_is_not(script):
    async def main(env):
        cache = Cache(Client(script, env, field_manager="test"), env, namespaces=WATCHED)
        with pytest.raises(ValueError, match=r"pods cannot be for those in 'c': .* limited to the namespaces a, b"):
            cache.informer(PODS, namespace="c")
        return str(cache.informer(PODS, namespace="b"))

    assert simulate(main) == "pods in b"


@pytest.mark.parametrize(
    ("namespaces", "problem"),
    [
        (("A",), "'A' is no name of a namespace"),
        (("a", "b", "a"), "'a' is there more than once"),
        (tuple(f"n{number}" for number in range(101)), "at most 100 namespaces"),
    ],
)
def test_settings_say_which_namespace_is_wrong(namespaces, problem):
    with pytest.raises(ValueError, match=f"watch_namespaces: {problem}"):
        Settings(watch_namespaces=namespaces)


async def test_an_operators_cache_is_limited_as_its_settings_say(script):
    settings = Settings(watch_namespaces=WATCHED, owns_process=False)
    async with Operator("test", settings, transport=script) as operator:
        assert str(operator.cache.informer(PODS)) == "pods in a, b"
        assert str(operator.cache.informer(NODES)) == "nodes"


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        (Scope(), Scope(("a",)), True),
        (Scope(("a", "b")), Scope(("a",)), True),
        (Scope(("a",)), Scope(("a", "b")), False),
        (Scope(("a",)), Scope(), False),
        (Scope(("a",), "l=1"), Scope(("a",)), False),
    ],
)
def test_which_scope_covers_which(one, other, expected):
    assert one.covers(other) is expected


def test_many_namespaces_are_counted_where_they_would_fill_a_label():
    assert str(Scope(tuple("abc"), "l=1")) == "in a, b, c l=1"
    assert str(Scope(tuple("abcd"))) == "in 4 namespaces"
