# SPDX-License-Identifier: Apache-2.0
"""pytest plugin: models on boards in tests.

    def test_digit(mlf_model):
        model = mlf_model("digits.tar")
        assert model.infer(IMAGE)[0].argmax() == 3

``pytest --mlf-board mps2-an386 --mlf-board host`` runs it on both. Nothing of the SDK is imported before a
test asks for a board. An emulated board that died is not started again: its other tests are skipped with the
reason. Boards on ports (``--mlf-port BOARD=PORT``) are shared between tests and workers of pytest-xdist.
Each inference of a model that was compiled here is compared with the witnesses of its file as well.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from mlf_sdk.pipeline.declare import Option, Stage, flag_of, option_of
from mlf_sdk.pipeline.request import Request
from mlf_sdk.pytest_plugin.evidence import Counts, summary
from mlf_sdk.pytest_plugin.model import BoardModel
from mlf_sdk.pytest_plugin.pool import BoardPool, make_pool, ports_by_board
from mlf_sdk.targets.boards import DEFAULT_BOARD

if TYPE_CHECKING:
    from mlf_sdk.wire.session import Session

_PACKAGE = Path(__file__).parents[1]
_HELP = {
    "witness_s": "Seconds for each witness of a model's file, over all inferences of the model "
    "(default: 10); 0: outputs are compared with none.",
}
_EVIDENCE: pytest.StashKey[list[Counts]] = pytest.StashKey()
_EVIDENCE_KEY = "mlf_evidence"  # of what a worker of pytest-xdist hands over
_POOL: pytest.StashKey[BoardPool] = pytest.StashKey()
_WRONG_PORTS: pytest.StashKey[str] = pytest.StashKey()
_PORTS: pytest.StashKey[dict[str, list[str]]] = pytest.StashKey()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of the group ``mlf``."""
    group = parser.getgroup("mlf", "models on boards (mlf-sdk)")
    group.addoption(
        "--mlf-board",
        action="append",
        default=[],
        metavar="NAME",
        help=f"Board to run tests with models on; may be repeated (default: {DEFAULT_BOARD}).",
    )
    group.addoption(
        "--mlf-port",
        action="append",
        default=[],
        metavar="[BOARD=]PORT",
        help="Where a board answers that holds the model already; may be repeated, also for "
        "equal boards: each test takes a free one. Without it the board is emulated.",
    )
    group.addoption(
        "--mlf-archive",
        metavar="FILE",
        help="Archive of mlf_session and mlf_model() where no marker names one.",
    )
    for field in _request_fields():
        _add_option(group, field)


def _request_fields() -> list[dataclasses.Field[Any]]:
    """Fields of a request that decide how a model is built and opened, and what its witnesses allow."""
    judged = ("rtol", "atol", "model_file", "witness_s")
    own = ("board", "port", "module")  # these may differ from test to test
    return [
        field
        for field in dataclasses.fields(Request)
        if field.name not in own and not option_of(field).hidden
        if field.name in judged or (option_of(field).stage or Stage.JUDGE) <= Stage.OPEN
    ]


def _add_option(group: pytest.OptionGroup, field: dataclasses.Field[Any]) -> None:
    declared: Option = option_of(field)
    kind = next((t for t in (float, int) if t.__name__ in str(field.type)), str)
    flag = f"--mlf-{flag_of(field).removeprefix('--')}"
    if "bool" in str(field.type):
        group.addoption(flag, dest=f"mlf_{field.name}", action="store_true", default=None, help=declared.help)
        return
    group.addoption(
        flag,
        dest=f"mlf_{field.name}",
        type=kind,
        action="append" if "tuple" in str(field.type) else "store",
        choices=declared.choices or None,
        metavar=None if declared.choices else declared.metavar or None,
        help=_HELP.get(field.name, declared.help).replace("%", "%%"),
    )


def _request(config: pytest.Config) -> Request:
    """Request with the options of this session of pytest; defaults come from mlf.toml."""
    from mlf_sdk.pipeline.config import read_config

    given = {field.name: config.getoption(f"mlf_{field.name}") for field in _request_fields()}
    unset = [name for name, value in given.items() if value in (None, [])]
    known = {name: value for name, value in given.items() if name not in unset}
    return Request().replace(
        **{name: tuple(value) if isinstance(value, list) else value for name, value in known.items()},
        **read_config(config.rootpath).defaults_for(unset),
    )


def pytest_configure(config: pytest.Config) -> None:
    """Declare the marker."""
    config.addinivalue_line(
        "markers", "mlf(archive, module=None): the archive of mlf_session and mlf_model()"
    )


def pytest_report_header(config: pytest.Config) -> str | None:
    """Name the boards, where they were chosen."""
    boards = config.getoption("--mlf-board")
    return f"mlf boards: {', '.join(boards)}" if boards else None


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run each test that needs a board on every board."""
    if "mlf_board" not in metafunc.fixturenames:
        return
    own = [m for m in metafunc.definition.iter_markers("parametrize") if "mlf_board" in _names(m.args[0])]
    if not own:
        boards = list(dict.fromkeys(metafunc.config.getoption("--mlf-board"))) or [DEFAULT_BOARD]
        metafunc.parametrize("mlf_board", boards, indirect=True, scope="session")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Give each port to a board of the tests; one that belongs to none is an error before the first test."""
    chosen = config.getoption("--mlf-board")
    params = [i.callspec.params for i in items if isinstance(i, pytest.Function) and hasattr(i, "callspec")]
    used = [str(result["mlf_board"]) for result in params if "mlf_board" in result]
    boards = list(dict.fromkeys([*used, *chosen])) or [DEFAULT_BOARD]
    try:
        config.stash[_PORTS] = ports_by_board(boards, config.getoption("--mlf-port"))
    except pytest.UsageError as error:
        if not hasattr(config, "workerinput"):
            raise
        config.stash[_WRONG_PORTS] = str(error)  # a worker of pytest-xdist that ends early hides the reason


def _names(argnames: str | list[str] | tuple[str, ...]) -> list[str]:
    return [n.strip() for n in argnames.split(",")] if isinstance(argnames, str) else list(argnames)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[Any]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add the board's console output to the report, and record a board that died.

    A failure is shown at the line of the test: frames of the SDK are left out.
    """
    pool = item.stash.get(_POOL, None)
    if pool is not None and call.excinfo is not None:
        _hide_own_frames(call.excinfo.value)
    report = yield
    if pool is None:
        return report
    if call.excinfo is not None:
        pool.note_failure(call.excinfo.value)
    text = pool.take_console()
    if text:
        report.sections.append((f"Captured console {call.when} ({pool.board})", text))
    return report


def _hide_own_frames(error: BaseException) -> None:
    """Mark the modules of the SDK that an error passed through: pytest looks at a frame's globals."""
    trace = error.__traceback__
    while trace is not None:
        if _PACKAGE in Path(trace.tb_frame.f_code.co_filename).parents:
            trace.tb_frame.f_globals["__tracebackhide__"] = True
        trace = trace.tb_next


@pytest.fixture(scope="session")
def mlf_board(request: pytest.FixtureRequest) -> str:
    """Name of the board that the test runs on."""
    return str(getattr(request, "param", DEFAULT_BOARD))


@pytest.fixture(scope="session")
def _mlf_pool(mlf_board: str, request: pytest.FixtureRequest) -> Iterator[BoardPool]:
    if wrong := request.config.stash.get(_WRONG_PORTS, ""):
        pytest.fail(wrong, pytrace=False)
    ports = request.config.stash[_PORTS].get(mlf_board, [])
    pool = make_pool(_request(request.config).replace(board=mlf_board), ports)
    yield pool
    pool.close()
    request.config.stash.setdefault(_EVIDENCE, []).append(pool.evidence.close())


@pytest.hookimpl(trylast=True)  # behind the last fixtures
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Hand the evidence of a worker of pytest-xdist to the session."""
    output: dict[str, Any] | None = getattr(session.config, "workeroutput", None)
    if output is not None:
        output[_EVIDENCE_KEY] = session.config.stash.get(_EVIDENCE, [])


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:  # noqa: ANN401 (of pytest-xdist, which need not be there)
    """Take the evidence of a worker of pytest-xdist."""
    entry = getattr(node, "workeroutput", {}).get(_EVIDENCE_KEY, [])
    node.config.stash.setdefault(_EVIDENCE, []).extend(entry)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Say what the outputs of each model were compared with."""
    entry: list[Counts] = config.stash.get(_EVIDENCE, [])
    for text in summary(entry):
        terminalreporter.write_line(text)


@pytest.fixture
def mlf_model(_mlf_pool: BoardPool, request: pytest.FixtureRequest) -> Iterator[Callable[..., BoardModel]]:
    """A factory: ``mlf_model("digits.tar")`` gives the model on the board, with ``infer(inputs)``.

    A path, of an archive or of a project's folder, is looked for beside the test, then in the current folder.
    Without one, the marker ``mlf`` or the option ``--mlf-archive`` names it. An emulated board is started
    once for all tests. A board on a port must run the image of the project, or of ``--mlf-image``.
    """
    request.node.stash[_POOL] = _mlf_pool
    _mlf_pool.begin(request.node.nodeid)

    def deploy(archive: str | Path | None = None, *, module: str | None = None) -> BoardModel:
        path, chosen = _archive_of(request, archive, module)
        model = _mlf_pool.model(path, chosen)
        _note_origin(request.node, model)
        return model

    yield deploy
    _mlf_pool.end()


def _note_origin(item: pytest.Item, model: BoardModel) -> None:
    """Record board, port and build id among the test's properties, which JUnit reports carry."""
    result = {"mlf_board": model.board, "mlf_port": model.port, "mlf_build_id": model.build_id}
    known = dict(item.user_properties)
    item.user_properties += [(k, v) for k, v in result.items() if v and known.get(k) != v]


@pytest.fixture
def mlf_session(mlf_model: Callable[..., BoardModel]) -> Iterator[Session]:
    """An open session with the board that holds the model of the marker ``mlf`` or of ``--mlf-archive``.

    A model that wrote outside of its memory is an error at the end of the test.
    """
    with mlf_model().guarded() as session:
        yield session


def _archive_of(
    request: pytest.FixtureRequest, archive: str | Path | None, module: str | None
) -> tuple[Path, str | None]:
    if archive is None:
        marker = request.node.get_closest_marker("mlf")
        if marker is not None and (marker.args or "archive" in marker.kwargs):
            archive = marker.args[0] if marker.args else marker.kwargs["archive"]
            module = module or marker.kwargs.get("module")
        else:
            archive = request.config.getoption("--mlf-archive")
    if archive is None:
        pytest.fail(
            "no archive: mlf_model(FILE), @pytest.mark.mlf(FILE) or --mlf-archive FILE", pytrace=False
        )
    beside = request.path.parent / archive
    return (beside if beside.exists() else Path(archive)).resolve(), module
