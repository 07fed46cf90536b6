"""The pytest plugin: the same test on every control plane, chosen by `--plane`.

Load it with `-p watchword.testing.plugin`. Fixtures: `plane`, `private_plane`, `token_webhook`. The mark
`planes("kube-apiserver")` names the only control planes on which a test makes sense.
"""

from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
import pytest_asyncio

from watchword.runtime.event_loop import new_loop
from watchword.testing.embedded_backend import open_embedded
from watchword.testing.errors import AssetsMissing
from watchword.testing.kube_apiserver_backend import Assets, KubeApiserverBackend, find_assets, open_kube_apiserver
from watchword.testing.plane import Backend, Plane
from watchword.testing.subprocess_backend import open_subprocess

EMBEDDED = "embedded"
REAL = "kube-apiserver"
PLANES = (EMBEDDED, REAL)
FIXTURES = ("plane", "private_plane")
LOOP_PARAMETER = "_asyncio_loop_factory"  # pytest-asyncio's own mark, set for each item from its hook


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.getgroup("watchword").addoption(
        "--plane",
        choices=(*PLANES, "all"),
        default=EMBEDDED,
        help="the control plane that tests run on (default: %(default)s)",
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "planes(*names): the only control planes on which this test makes sense")
    config.addinivalue_line("markers", "bookmarks: watches get one every minute in virtual time, too")
    if config.getoption("--plane") == REAL:
        try:
            find_assets()
        except AssetsMissing as error:
            raise pytest.UsageError(str(error)) from error


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test that requests a control plane once on each chosen one."""
    for fixture in FIXTURES:
        if fixture in metafunc.fixturenames:
            metafunc.parametrize(fixture, _choices(metafunc), indirect=True)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Run tests with real processes in real time; with `--plane=kube-apiserver`, deselect tests without a plane."""
    with_plane = [item for item in items if _plane_of(item)]
    for item in with_plane:
        if _plane_of(item) == REAL:
            item.callspec.params[LOOP_PARAMETER] = new_loop  # type: ignore[attr-defined]  # pytest.Function's
    if config.getoption("--plane") == REAL:
        config.hook.pytest_deselected(items=[item for item in items if not _plane_of(item)])
        items[:] = with_plane


def _choices(metafunc: pytest.Metafunc) -> list[object]:
    chosen = metafunc.config.getoption("--plane")
    mark = metafunc.definition.get_closest_marker("planes")
    suited = mark.args if mark else PLANES
    selected = [name for name in suited if chosen in ("all", name)]
    if selected:
        return list(selected)
    reason = f"makes sense only on {' and '.join(suited)}: run with --plane={suited[0]}"
    return [pytest.param(suited[0], marks=pytest.mark.skip(reason=reason))]


def _plane_of(item: pytest.Item) -> str:
    parameters = item.callspec.params if isinstance(item, pytest.Function) and hasattr(item, "callspec") else {}
    return next((str(parameters[name]) for name in FIXTURES if name in parameters), "")


@pytest.fixture(scope="session")
def _kube_apiserver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KubeApiserverBackend]:
    with open_kube_apiserver(_assets(), tmp_path_factory.mktemp("kube-apiserver")) as backend:
        yield backend


@pytest_asyncio.fixture
async def plane(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Plane]:
    """A control plane: a new embedded one, or the real one of the session."""
    async with AsyncExitStack() as stack:
        backend: Backend
        if request.param == REAL:
            backend = request.getfixturevalue("_kube_apiserver")
        else:
            folder = tmp_path_factory.mktemp("plane")
            bookmarks = request.node.get_closest_marker("bookmarks") is not None
            backend = await stack.enter_async_context(
                open_embedded(folder, listening=_in_real_time(request), bookmarks=bookmarks)
            )
        view = Plane(backend, private=False)
        stack.push_async_callback(view.close)
        yield view


@pytest.fixture
def token_webhook() -> Path | None:
    """The kubeconfig of the server that reviews tokens for a `private_plane`: None, unless a test overrides it."""
    return None


@pytest_asyncio.fixture
async def private_plane(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, token_webhook: Path | None
) -> AsyncIterator[Plane]:
    """A control plane for this test only, which may be restarted; in real time it is a process and can be killed."""
    folder = tmp_path_factory.mktemp("plane")
    async with AsyncExitStack() as stack:
        backend: Backend
        if request.param == REAL:
            backend = stack.enter_context(open_kube_apiserver(_assets(), folder, token_webhook=token_webhook))
        elif _in_real_time(request):
            backend = stack.enter_context(open_subprocess(folder, token_webhook=token_webhook))
        else:
            backend = await stack.enter_async_context(open_embedded(folder, listening=False))
        view = Plane(backend, private=True)
        stack.push_async_callback(view.close)
        yield view


def _assets() -> Assets:
    try:
        return find_assets()
    except AssetsMissing as error:
        pytest.skip(str(error))


def _in_real_time(request: pytest.FixtureRequest) -> bool:
    return request.node.get_closest_marker("real_time") is not None
